#!/usr/bin/env bash
# Seconds a step of GPT-2 124M, 4 x 64 tokens, fp32, on two threads: belay-train's model beside its own matrix products and, where
# python3-torch is installed, beside PyTorch, in one run.
set -euo pipefail
cd "$(dirname "$0")/../.."
bench=${BELAY_BIN:-build/bin}/../tests/bench/bench_train_step
[ -x "$bench" ] || make -s "${bench#"$PWD"/}"
out=$(OMP_NUM_THREADS=2 "$bench")
printf '%s\n' "$out" | grep -vE '^  step|^  [a-z]'
ours=$(awk '$1 == "step" && /median/ {print $2}' <<<"$out")
if /usr/bin/python3 -c 'import torch' 2>/dev/null; then
  theirs=$(/usr/bin/python3 tests/bench/torch_step.py 10 2)
  echo "$theirs"
  awk -v a="$ours" -v b="$(grep -oE 'step [0-9.]+' <<<"$theirs" | cut -d' ' -f2)" 'BEGIN {printf "ratio  PyTorch / Belay %.2f\n", b / a}'
else
  echo "PyTorch not measured: python3-torch is not installed"
fi
