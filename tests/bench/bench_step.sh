#!/usr/bin/env bash
# Seconds a step of GPT-2 124M, 4 x 64 tokens, fp32, on two threads: belay-train's model beside its own matrix products and, where
# python3-torch is installed, beside PyTorch, in one run.
set -euo pipefail
cd "$(dirname "$0")/../.."
bench=build/tests/bench/bench_train_step
make -s "$bench"
out=$(OMP_NUM_THREADS=2 "$bench")
printf '%s\n' "$out" | grep -vE '^  step|^  [a-z]'
ours=$(awk '$1 == "step" && /median/ {print $2}' <<<"$out")
if /usr/bin/python3 -c 'import torch' 2>/dev/null; then
  # with the core type that belay-train chooses: the library's own choice may be ten times slower
  core=$(grep -oE 'OpenBLAS [0-9.]+ [A-Za-z0-9]+' <<<"$out" | awk '{print $3}')
  theirs=$(OPENBLAS_CORETYPE=$core timeout 300 /usr/bin/python3 tests/bench/torch_step.py 5 2) ||
    { echo "PyTorch not measured: it did not finish 6 steps in 300 s"; exit 0; }
  echo "$theirs"
  awk -v a="$ours" -v b="$(grep -oE 'step [0-9.]+' <<<"$theirs" | cut -d' ' -f2)" 'BEGIN {printf "ratio  PyTorch / Belay %.2f\n", b / a}'
else
  echo "PyTorch not measured: python3-torch is not installed"
fi
