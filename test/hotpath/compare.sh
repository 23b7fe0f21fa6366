#!/usr/bin/env bash
# Compares the benchmarks of the hot path with those of an earlier commit: `test/hotpath/compare.sh [COMMIT]`, by default where this branch left
# main, or main's last but one commit. It fails when a query allocates more than before, or takes over 25% longer.
#
# Both sides run in turn, and the fastest of their runs are compared: what a machine does besides makes a run slower, never faster, so the
# fastest one is hardly noise. What is over the limit is measured again, twice, before it counts. benchstat shows the rest for people.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

limit=1.25 # below this, even the fastest of many runs differ by chance on a shared machine
rounds=4   # of both sides in turn
runs=6     # of each benchmark in a round
patience=80 # seconds after which nothing is measured again: two minutes are what a step before each commit may take

skip() {
  echo "hotpath: not compared: $*"
  exit 0
}

# judge prints what is worse in the second file than in the first, a line each.
judge() {
  awk -v limit=$limit '
    /^Benchmark/ {
      side = FILENAME == ARGV[1] ? "old" : "new"
      for (i = 3; i < NF; i += 2) {
        key = side SUBSEP $1 SUBSEP $(i + 1)
        if (!(key in least) || $i + 0 < least[key]) least[key] = $i + 0
      }
      names[$1]
    }
    END {
      for (n in names) {
        if (!(("old", n, "ns/op") in least) || !(("new", n, "ns/op") in least)) continue
        a = least["old", n, "allocs/op"]; b = least["new", n, "allocs/op"]
        if (b > a) printf "%s allocates %d times a query, %d before\n", n, b, a
        a = least["old", n, "ns/op"]; b = least["new", n, "ns/op"]
        if (b > a * limit) printf "%s takes %.0f ns, %.0f before\n", n, b, a
      }
    }' "$1" "$2"
}

# `compare.sh -judge OLD NEW` compares two files of figures, and is how the guard itself is tested.
if [[ ${1:-} == -judge ]]; then
  bad=$(judge "$2" "$3")
  echo "$bad"
  [[ -z $bad ]]
  exit
fi

base=${1:-}
if [[ -z $base ]]; then
  head=$(git rev-parse -q --verify HEAD) || skip "this is no git repository with a commit"
  for branch in origin/main main; do
    base=$(git merge-base HEAD "$branch" 2>/dev/null) && break
  done
  # On main itself: the commit before the last one, or the last one while there are changes that it does not have.
  if [[ -z $base || $base == "$head" ]]; then
    if git diff --quiet HEAD -- '*.go' go.mod; then
      base=$(git rev-parse -q --verify HEAD~1) || skip "there is no earlier commit"
    else
      base=$head
    fi
  fi
fi

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mkdir "$tmp/base"
git archive "$base" | tar -x -C "$tmp/base"
rm -rf "$tmp/base/test/hotpath"
mkdir -p "$tmp/base/test/hotpath"
cp test/hotpath/*_test.go "$tmp/base/test/hotpath/" # the same questions for both

go test -trimpath -c -o "$tmp/new.test" ./test/hotpath
(cd "$tmp/base" && go test -trimpath -c -o "$tmp/old.test" ./test/hotpath) >"$tmp/build" 2>&1 || {
  head -5 "$tmp/build"
  skip "the benchmarks do not compile with the code of ${base:0:12}"
}

# measure runs both sides in turn.
measure() {
  local i side
  for ((i = 0; i < rounds; i++)); do
    for side in old new; do
      "$tmp/$side.test" -test.run '^$' -test.cpu 1 -test.benchtime 10ms -test.count $runs -test.bench BenchmarkHotPath >>"$tmp/$side.txt" || {
        [[ $side == new ]] && return 1
        skip "the benchmarks do not run with the code of ${base:0:12}"
      }
    done
  done
}

# On a machine that is busy with other things caches are cold at random, and even the fastest run says little: there only allocations count.
load=$(cut -d' ' -f1 /proc/loadavg 2>/dev/null || echo 0)
if awk -v l="$load" -v n="$(nproc 2>/dev/null || echo 1)" 'BEGIN { exit !(l > n) }'; then
  echo "hotpath: the load average is $load: times are not judged, only allocations"
  limit=1e9 rounds=1 runs=1
fi
measure
for _ in 1 2; do
  [[ -n $(judge "$tmp/old.txt" "$tmp/new.txt") ]] && ((SECONDS < patience)) || break
  measure
done
if command -v "${BENCHSTAT:-benchstat}" >/dev/null; then
  (cd "$tmp" && "${BENCHSTAT:-benchstat}" old.txt new.txt)
fi
bad=$(judge "$tmp/old.txt" "$tmp/new.txt")
[[ -z $bad ]] || {
  printf 'slower than %s:\n%s\n' "${base:0:12}" "$bad"
  exit 1
}
echo "hotpath: no worse than ${base:0:12}"
