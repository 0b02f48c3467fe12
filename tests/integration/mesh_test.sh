#!/usr/bin/env bash
# Every mesh computes what one rank computes in double: loss, gradient norm, every gradient, ten steps, an evaluation; replicas stay bitwise equal.
# tests/mesh/meshes.h lists the meshes, mesh_check.c the tolerances; it prints TAP itself.
. "$(dirname "$0")/mesh_lib.sh"
check_meshes fp32
