#!/usr/bin/env bash
# Does sim-check find a fault? Each tests/sim/planted/NAME.sed puts one into a copy of the sources (its first line names the file and the
# fault); the copy is built, and its sim-check must fail.
#   planted.sh [NAME...]
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
seeds=${SIM_SEEDS:-1000}
scratch=$(mktemp -d "${TMPDIR:-/tmp}/belay-planted-XXXXXX") || exit 1
trap 'rm -rf "${scratch:?}"' EXIT
bad=0

# A copy with its objects, so that only what changed is compiled.
copy() {
  mkdir -p "$scratch/tree/build"
  cp -a "$root"/{Makefile,common,schema,planner,daemon,sim,tools} "$scratch/tree/" || exit 1
  mkdir -p "$scratch/tree/tests" && cp -a "$root"/tests/sim "$scratch/tree/tests/" || exit 1
  [ ! -d "$root/build/obj" ] || cp -a "$root/build/obj" "$scratch/tree/build/" || exit 1
}

build() { make --no-print-directory -C "$scratch/tree" BUILD=build build/tests/sim/sim_check >"$scratch/make.log" 2>&1; }

try() { # try SED
  local name file what said rc
  name=$(basename "$1" .sed)
  what=$(sed -n '1s/^# //p' "$1"); file=${what%%:*}
  cp -a "$scratch/tree/$file" "$scratch/whole"
  sed -f "$1" "$scratch/whole" >"$scratch/tree/$file"
  if cmp -s "$scratch/whole" "$scratch/tree/$file"; then
    echo "not found: $name: its sed script changes nothing in $file any more"; bad=1
  elif ! build; then
    echo "not found: $name does not build:"; tail -n 5 "$scratch/make.log"; bad=1
  else
    said=$("$scratch/tree/build/tests/sim/sim_check" --seeds "$seeds"); rc=$?
    if [ "$rc" -eq 1 ] && said=$(grep '^FAILED' <<<"$said"); then echo "found: $name ($what): ${said#FAILED: }"
    else echo "not found: $name ($what): sim-check ended with $rc"; bad=1; fi
  fi
  cp "$scratch/whole" "$scratch/tree/$file"
}

copy
if [ $# -eq 0 ]; then set -- "$root"/tests/sim/planted/*.sed; else set -- "${@/#/$root/tests/sim/planted/}"; set -- "${@/%/.sed}"; fi
for sed in "$@"; do try "$sed"; done
exit $bad
