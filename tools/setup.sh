#!/bin/sh
# Usage: tools/setup.sh NEED...
#
# Makes sure that what the build, the tests, or the demo need is on this machine. A need is one of
#
#   go          Go, new enough for go.mod
#   cc          a C compiler and the C library's headers, for the race detector
#   postgresql  the PostgreSQL server's programs
#   pgbouncer   PgBouncer, the connection pooler
#   alertmanager  Alertmanager, under Debian's name for its program
#   psql, prometheus, promtool, amtool, chromium, curl, git
#   prometheus-sql-exporter, prometheus-postgres-exporter  what the benchmarks compare with
#   npm         for tools/postgres.sh, which fetches other versions of the server
#
# Nothing happens when everything is there. As root on a machine with apt-get, missing needs are installed as Debian
# packages; elsewhere the script says what to run, and fails. It starts no service and creates no database cluster: the
# tests and the demo bring up servers of their own, on ports of their own.
set -eu

go_minimum=1.26
cluster_dropin=/etc/postgresql-common/createcluster.d/00-leader-exporter-setup.conf
service_policy=/usr/sbin/policy-rc.d
created_dropin=no
created_policy=no

say() { echo "setup: $*"; }

fail() {
	say "$*" >&2
	exit 1
}

has() { command -v "$1" >/dev/null 2>&1; }

# has_postgresql looks where internal/pgserver looks: the variable, PATH, Debian's folders.
has_postgresql() {
	if [ -n "${LEADER_EXPORTER_PG_BIN:-}" ]; then
		[ -x "$LEADER_EXPORTER_PG_BIN/initdb" ] && [ -x "$LEADER_EXPORTER_PG_BIN/postgres" ] && return 0
		fail "LEADER_EXPORTER_PG_BIN=$LEADER_EXPORTER_PG_BIN holds no initdb and postgres: correct or unset it"
	fi
	if initdb=$(command -v initdb); then
		folder=$(dirname "$(readlink -f "$initdb")")
		[ -x "$folder/postgres" ] && return 0
	fi
	for folder in /usr/lib/postgresql/*/bin; do
		[ -x "$folder/initdb" ] && [ -x "$folder/postgres" ] && return 0
	done
	return 1
}

# has_pgbouncer looks where internal/pgbouncer looks: PATH, and the folder that Debian keeps for root's PATH.
has_pgbouncer() { has pgbouncer || [ -x /usr/sbin/pgbouncer ]; }

has_alertmanager() { has prometheus-alertmanager; }

# has_cc compiles, because Debian's gcc without recommends comes without the C library's headers.
has_cc() {
	compiler=$(go env CC 2>/dev/null) || compiler=gcc
	echo '#include <stdlib.h>' | ${compiler:-gcc} -E -x c - >/dev/null 2>&1
}

# check_go never installs: Debian's Go is older than this module, and a second one would shadow the first.
check_go() {
	has go || fail "Go $go_minimum or newer is needed and there is no go on PATH: see https://go.dev/doc/install"
	version=$(go env GOVERSION 2>/dev/null) || version=$(GOTOOLCHAIN=local go version | cut -d' ' -f3)
	number=${version#go}
	major=${number%%.*}
	minor=${number#*.}
	minor=${minor%%[!0-9]*}
	case $major$minor in
	'' | *[!0-9]*)
		say "cannot read the version of Go from \"$version\"; going on"
		return 0
		;;
	esac
	[ "$major" -gt 1 ] || [ "$minor" -ge "${go_minimum#*.}" ] ||
		fail "Go $go_minimum or newer is needed and this is $version: see https://go.dev/doc/install"
}

# debian_packages prints the packages that bring a need.
debian_packages() {
	case $1 in
	cc) echo gcc libc6-dev ;;
	postgresql) echo postgresql ;;
	psql) echo postgresql-client ;;
	prometheus | promtool) echo prometheus ;;
	alertmanager | amtool) echo prometheus-alertmanager ;;
	*) echo "$1" ;;
	esac
}

cleanup() {
	[ "$created_policy" = no ] || rm -f "$service_policy"
	[ "$created_dropin" = no ] || rm -f "$cluster_dropin"
}

# hold_services keeps the packages from starting a Prometheus on port 9090, an Alertmanager on port 9093, a PgBouncer on port 6432, or a PostgreSQL, when
# they are installed. A policy that the machine already has is left alone.
hold_services() {
	[ ! -e "$service_policy" ] || return 0
	created_policy=yes
	printf '#!/bin/sh\nexit 101\n' >"$service_policy"
	chmod 755 "$service_policy"
}

# hold_cluster keeps the server's package from creating its "main" cluster. The drop-in goes away again, so that a server
# installed later, on purpose, behaves as its packages describe.
hold_cluster() {
	mkdir -p "$(dirname "$cluster_dropin")"
	created_dropin=yes
	echo 'create_main_cluster = false' >"$cluster_dropin"
}

# quietly runs a step, and shows what it printed only when it fails.
quietly() {
	if ! output=$("$@" 2>&1 </dev/null); then
		echo "$output" >&2
		fail "failed: $*"
	fi
}

install_packages() {
	if ! has apt-get; then
		fail "missing: $missing. Install what brings them (on Debian the packages $packages) and run this again"
	fi
	if [ "$(id -u)" -ne 0 ]; then
		fail "missing: $missing. Run: sudo tools/setup.sh $missing"
	fi
	trap cleanup EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM
	hold_services
	case " $missing " in *' postgresql '*) hold_cluster ;; esac

	export DEBIAN_FRONTEND=noninteractive
	say "reading the list of packages"
	quietly apt-get -qq update
	say "installing $packages"
	# shellcheck disable=SC2086 # the list is meant to be split
	quietly apt-get -qq --yes --no-install-recommends -o Dpkg::Options::=--force-confold install $packages
}

# find_missing sets missing and packages from the needs.
find_missing() {
	missing=
	packages=
	for need in "$@"; do
		case $need in
		go) check_go && continue ;;
		cc | postgresql | pgbouncer | alertmanager) "has_$need" && continue ;;
		psql | prometheus | promtool | amtool | chromium | curl | git | npm | prometheus-sql-exporter | prometheus-postgres-exporter) has "$need" && continue ;;
		*) fail "unknown need \"$need\"; the head of tools/setup.sh lists them" ;;
		esac
		missing="$missing${missing:+ }$need"
		for package in $(debian_packages "$need"); do
			case " $packages " in
			*" $package "*) ;;
			*) packages="$packages${packages:+ }$package" ;;
			esac
		done
	done
}

[ $# -gt 0 ] || fail "name what is needed: tools/setup.sh NEED..."

find_missing "$@"
[ -n "$missing" ] || exit 0
install_packages
find_missing "$@"
[ -z "$missing" ] || fail "installed $packages, and still missing: $missing"
say "done"
