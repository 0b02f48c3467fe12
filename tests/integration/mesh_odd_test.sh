#!/usr/bin/env bash
# Sizes at the edge of what divides come to what one rank computes in double (tests/mesh/odd.h), and tokens outside of the vocabulary are noticed.
. "$(dirname "$0")/mesh_lib.sh"
check_meshes odd
