#!/bin/sh
# Usage: tools/timed.sh NAME COMMAND [ARGUMENT...]
# Runs the command and says afterwards how long it took; its exit status is the command's.
set -u

name=$1
shift
start=$(date +%s)
"$@"
status=$?
elapsed=$(($(date +%s) - start))

if [ "$status" -eq 0 ]; then
	echo "$name: ok in ${elapsed}s"
else
	echo "$name: FAILED with status $status after ${elapsed}s" >&2
fi
exit "$status"
