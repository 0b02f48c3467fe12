#!/usr/bin/env bash
# make bench: every measurement that docs/performance.md quotes, each with the command that repeats it.
set -euo pipefail
cd "$(dirname "$0")/../.."
for b in tests/bench/bench_*.sh; do
  printf '\n== %s\n' "$b"
  bash "$b"
done
