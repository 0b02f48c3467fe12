#!/usr/bin/env bash
# The committed numbers that the model is compared with (tests/unit/runtime/reference_test.c) are what PyTorch gives here.
. "$(dirname "$0")/../lib.sh"
folder=$(dirname "$0")/../fixtures/model
plan 2
if ! python=$(torch_python); then
  skip "reference.json is what reference.py gives" "PyTorch is not there; Debian's package is python3-torch"
  skip "another number is noticed" "PyTorch is not there"
  exit 0
fi
sed '0,/"norms": \[2\.3/s//"norms": [2.4/' "$folder/reference.json" >"$SCRATCH/other.json"
"$python" "$folder/reference.py" --check "$folder/reference.json" "$SCRATCH/other.json" >"$SCRATCH/out" 2>&1
is "reference.json is what reference.py gives" "$(head -n 1 "$SCRATCH/out")" "the file is what this script gives"
like "another number is noticed" "$(tail -n 1 "$SCRATCH/out")" 'norms\[0\]: 2\.4.* in the file, 2\.3.* by this script'
