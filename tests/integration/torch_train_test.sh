#!/usr/bin/env bash
# A training run has the losses of PyTorch's on the same weights and samples: the model from Hugging Face's format, the order of the data, AdamW with
# clipping, the learning rate. tests/gpu does the same on a GPU.
. "$(dirname "$0")/../lib.sh"
gpu=$(cd "$(dirname "$0")/../gpu" && pwd)
cd "$SCRATCH" || exit 1
# trained FOLDER MODEL: whether the losses of thirty steps are within 1e-5 of PyTorch's
trained() {
  "$python" "$gpu/torch_train.py" "$1" "$2" 64 30 8 --device cpu --fp32 || return 1
  (cd "$1" && belay-train job.yaml >log 2>&1) || { diag "$(tail -n 5 "$1/log")"; return 1; }
  "$python" "$gpu/compare.py" "$1/losses.json" "$1/ckpt/metrics.csv" 1e-5 | sed 's/^/# /'
  return "${PIPESTATUS[0]}"
}
plan 3
if ! python=$(torch_python); then
  for _ in 1 2 3; do skip "losses of PyTorch" "PyTorch is not there; Debian's package is python3-torch"; done
  exit 0
fi
ok "GPT-2 has PyTorch's losses" trained gpt2 gpt2-tiny
ok "Llama has PyTorch's losses" trained llama llama-tiny
sed -i 's/lr: 0.001,/lr: 0.0011,/; s/directory: ckpt/directory: other/' gpt2/job.yaml
(cd gpt2 && belay-train job.yaml >log 2>&1)
ok "another learning rate is noticed" eval '! "$python" "$gpu/compare.py" gpt2/losses.json gpt2/other/metrics.csv 1e-5 >/dev/null'
