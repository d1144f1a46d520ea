#!/bin/sh
# Usage: tools/fuzz.sh DURATION [PACKAGE...]
# Fuzzes every Fuzz function of the packages, or of this module, one after the other, for the given time each. The first crasher ends the run;
# go test has written it to testdata/fuzz by then.
set -eu

duration=$1
shift
[ $# -gt 0 ] || set -- ./...
# shellcheck disable=SC2016 # the dollars are the template's
files='{{$dir := .Dir}}{{range .TestGoFiles}}{{$dir}}/{{.}} {{end}}{{range .XTestGoFiles}}{{$dir}}/{{.}} {{end}}'

packages=$(go list -f "{{.ImportPath}} $files" "$@")
echo "$packages" | while read -r package sources; do
	[ -n "$sources" ] || continue
	# shellcheck disable=SC2086 # the list is meant to be split
	targets=$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' $sources)
	for target in $targets; do
		echo "fuzz: $package $target for $duration"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "$duration" "$package" </dev/null
	done
done
