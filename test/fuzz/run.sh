#!/usr/bin/env bash
# Runs every fuzz target of the module, one after the other, and prints a table of what each did. Targets are found, not listed: a new one
# is run from the day it is there.
#
#   bash test/fuzz/run.sh [SECONDS] [WORKERS]
#
# SECONDS is how long each target runs (60), WORKERS how many inputs are tried at once (the number of CPUs). The exit code is 1 if
# one failed; the input that did it is then in testdata/fuzz beside its test, to be committed with the fix.
set -uo pipefail
cd "$(dirname "$0")/../.."

seconds=${1:-60}
workers=${2:-$(getconf _NPROCESSORS_ONLN)}
log=$(mktemp)
trap 'rm -f "$log"' EXIT

failed=0
printf '%-28s %-20s %9s %12s %8s  %s\n' package target seconds executions new result
for file in $(grep -rl --include='*_test.go' '^func Fuzz' . | sort); do
    dirname "$file"
done | uniq | while read -r package; do
    go test -list '^Fuzz' "$package" | grep '^Fuzz' | sed "s|^|$package |"
done | {
    while read -r package target; do
        result=ok
        # An input that reaches something new is made smaller for a second, not for the minute that Go takes by default and counts to the time.
        # The minute for -timeout is for what is done before and after: building, and trying the seeds.
        if ! go test -run '^$' -fuzz "^$target\$" -fuzztime "${seconds}s" -fuzzminimizetime 1s -parallel "$workers" -timeout "$((seconds + 60))s" "$package" >"$log" 2>&1; then
            result=FAILED failed=1
        fi
        last=$(grep '^fuzz: elapsed' "$log" | tail -n 1)
        executions=$(sed -n 's/.*execs: \([0-9]*\).*/\1/p' <<<"$last")
        new=$(sed -n 's/.*new interesting: \([0-9]*\).*/\1/p' <<<"$last")
        printf '%-28s %-20s %9s %12s %8s  %s\n' "$package" "$target" "$seconds" "${executions:-?}" "${new:-?}" "$result"
        if [ "$result" = FAILED ]; then
            cat "$log"
        fi
    done
    exit "$failed"
}
