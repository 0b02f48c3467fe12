#!/usr/bin/env bash
# A part of `make sim-check`: random faults on random small clusters around the core; and one seed is the same run twice.
. "$(dirname "$0")/../lib.sh"
check=$BELAY_BIN/../tests/sim/sim_check

ok "200 seeds: nothing wrong" quiet "$check" --seeds 200
"$check" --seed 7 --trace >"$SCRATCH/one"; "$check" --seed 7 --trace >"$SCRATCH/two"
ok "a seed replays exactly" cmp "$SCRATCH/one" "$SCRATCH/two"
ok "and tells what happens" grep -q "all faults end" "$SCRATCH/one"
plan "$TAP_COUNT"
