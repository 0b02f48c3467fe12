#!/usr/bin/env bash
# Odd samples on 2 ranks: tokens that are none, ranks without targets, experts that nobody chooses, samples that one rank cannot read.
# tests/programs/engine_check.c prints TAP itself.
. "$(dirname "$0")/../lib.sh"
export OMP_NUM_THREADS=1
under 2 "$BELAY_TEST_PROGRAMS/engine_check" || TAP_FAILED=1
