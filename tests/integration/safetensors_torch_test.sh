#!/usr/bin/env bash
# Safetensors that PyTorch writes are read here, and the other way, bit for bit; numbers are rounded as PyTorch rounds them.
. "$(dirname "$0")/../lib.sh"
script=$(cd "$(dirname "$0")/../programs" && pwd)/safetensors_torch.py
cd "$SCRATCH" || exit 1
quietly() { "$@" >out 2>&1 || { diag "$(cat out)"; return 1; }; }
plan 17
if ! python=$(torch_python); then
  for _ in $(seq 17); do skip "safetensors of PyTorch" "PyTorch is not there; Debian's package is python3-torch"; done
  exit 0
fi
for from in F32 BF16 F16 F64; do "$python" "$script" write "$from" "$from"; done
for from in F32 BF16 F16 F64; do
  ok "$from of PyTorch comes in" quietly belay-train import $from --out $from.checkpoint
  for to in f32 bf16 f16; do
    belay-train export $from.checkpoint --out $from.$to --dtype $to --tokenizer bytes >out 2>&1 || diag "$(cat out)"
    is "and leaves as $to bit for bit" "$("$python" "$script" check $from $from.$to ${to^^})" "12 tensors alike"
  done
done
printf '\1' | dd of=F32.f32/model.safetensors bs=1 seek=9000 conv=notrunc 2>/dev/null
like "another bit is noticed" "$("$python" "$script" check F32 F32.f32 F32)" '12 tensors, 1 differ'
