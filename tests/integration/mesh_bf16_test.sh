#!/usr/bin/env bash
# As mesh_test.sh, with weights and activations in bf16: near one rank in double, replicas bitwise equal, and equal meshes equal bit by bit.
. "$(dirname "$0")/mesh_lib.sh"
check_meshes bf16
