#!/usr/bin/env bash
# Seconds a step of GPT-2 124M, fp32, on two threads, at 4 x 64 and 4 x 1024 tokens: belay-train's engine beside its own matrix products and,
# where python3-torch is installed, beside PyTorch, in one run on one host; and the memory that each needs.
set -euo pipefail
cd "$(dirname "$0")/../.."
bench=build/tests/bench/bench_train
threads=${OMP_NUM_THREADS:-$(nproc)}
have_torch=no
if /usr/bin/python3 -c 'import torch' 2>/dev/null; then have_torch=yes; fi

# one TOKENS STEPS TORCH_STEPS
one() {
  local out theirs core
  out=$(OMP_NUM_THREADS=$threads "$bench" --steps "$2" --tokens "$1")
  printf '%s\n' "$out"
  if [ $have_torch = no ]; then echo "PyTorch not measured: python3-torch is not installed"; return; fi
  # with the core type that belay-train chooses: the library's own choice may be ten times slower
  core=$(grep -oE 'OpenBLAS [0-9.]+ [A-Za-z0-9]+' <<<"$out" | awk '{print $3}')
  theirs=$(OPENBLAS_CORETYPE=$core timeout "${TORCH_SECONDS:-600}" /usr/bin/python3 tests/bench/torch_step.py "$3" "$threads" "$1") ||
    { echo "PyTorch not measured: it did not finish in ${TORCH_SECONDS:-600} s"; return; }
  echo "$theirs"
  awk -v a="$(awk '$1 == "step" {print $2}' <<<"$out")" -v b="$(grep -oE 'step [0-9.]+' <<<"$theirs" | cut -d' ' -f2)" \
    -v am="$(awk '$1 == "memory" {print $2}' <<<"$out")" -v bm="$(grep -oE 'memory [0-9]+' <<<"$theirs" | cut -d' ' -f2)" \
    'BEGIN {printf "ratio     PyTorch / Belay: time %.2f, memory %.2f\n", b / a, bm / am}'
}
one 64 "${STEPS:-10}" "${TORCH_STEPS:-4}"
one 1024 "${LONG_STEPS:-4}" "${TORCH_LONG_STEPS:-2}"
