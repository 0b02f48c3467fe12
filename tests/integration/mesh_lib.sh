# Shared by the tests of meshes: tests/lib.sh, and tests/mesh under mpirun.
. "$(dirname "$0")/../lib.sh"
export OMP_NUM_THREADS=1

# check_meshes PRECISION: prints TAP
check_meshes() {
  local mesh
  mesh=$(dirname "$BELAY_TEST_PROGRAMS")/mesh
  "$mesh/mesh_reference" "$SCRATCH" >"$SCRATCH/reference.out" 2>&1 || { echo "Bail out! no reference: $(cat "$SCRATCH/reference.out")"; exit 1; }
  under 8 "$mesh/mesh_check" "$SCRATCH" "$1" || TAP_FAILED=1
}
