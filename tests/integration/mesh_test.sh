#!/usr/bin/env bash
# Every mesh computes what one rank computes in double: loss, gradient norm, every gradient, ten steps, an evaluation; replicas stay bitwise equal.
# tests/mesh/mesh_check.c lists the meshes and tolerances; it prints TAP itself.
. "$(dirname "$0")/../lib.sh"
export OMP_NUM_THREADS=1
mesh=$(dirname "$BELAY_TEST_PROGRAMS")/mesh
"$mesh/mesh_reference" "$SCRATCH" >reference.out 2>&1 || { echo "Bail out! no reference: $(cat reference.out)"; exit 1; }
mpirun --allow-run-as-root --oversubscribe --bind-to none --mca btl self,vader,tcp -n 8 "$mesh/mesh_check" "$SCRATCH" || TAP_FAILED=1
