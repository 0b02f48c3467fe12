#!/usr/bin/env bash
# Meshes, models and batches that do not fit each other are refused with the place and a way out, by `belay validate` and by belay-train alike, before
# anything is started or written.
. "$(dirname "$0")/train_lib.sh"

# write MODEL PARALLEL BATCH TRAIN: bad.yaml, with more fields of these sections; with arch gpt2 when MODEL begins with "gpt2 "
write() {
  local arch=llama model=$1
  case $model in "gpt2 "*) arch=gpt2 model=${model#gpt2 } ;; esac
  cat >bad.yaml <<END
name: bad
train:
  model: {arch: $arch, layers: 4, hidden: 32, $model}
  data: {path: corpus.txt}
  batch: {$3}
  steps: 2
  ${4:-seed: 1}
parallel: {$2}
resources: {device: cpu}
END
}

# what | more of the model | the mesh | the batch | more of train | line:column | the sentence, a regular expression
model='heads: 4, context: 32' batch='global: 8, micro: 2'
cases=(
  "tp and heads|$model|tp: 3|$batch||8:16|parallel.tp: 3 does not divide heads = 4; use tp: 2"
  "tp and kv_heads|$model, kv_heads: 2|tp: 4|$batch||8:16|parallel.tp: 4 does not divide kv_heads = 2; use tp: 2"
  "tp and ffn|$model, ffn: 30|tp: 4|$batch||8:16|parallel.tp: 4 does not divide ffn = 30; use tp: 2"
  "tp 0|$model|tp: 0|$batch||8:16|parallel.tp: must be a whole number from 1"
  "more ranks than a job may have|$model|tp: 1048576, dp: 2|$batch||8:1|more than 1048576 ranks"
  "tokens and tp|heads: 4, context: 3|tp: 2|global: 1, micro: 1||8:1|micro x context / cp = 1 x 3 / 1 = 3 tokens cannot be divided by tp = 2"
  "tokens and tp, with cp|heads: 4, context: 4|tp: 4, cp: 2|global: 1, micro: 1||8:1|= 2 tokens cannot be divided by tp = 4; use another"
  "cp and context|$model|cp: 3|$batch||8:16|parallel.cp: context 32 cannot be divided by 2 x cp = 6 .*use context: 36 or another cp"
  "more cp than context|$model|cp: 32|$batch||8:16|parallel.cp: context 32 cannot be divided by 2 x cp = 64"
  "ep and dp|$model, experts: 4|ep: 4, dp: 2|$batch||8:16|parallel.ep: 4 does not divide dp x cp = 2 x 1 = 2"
  "ep and experts|$model, experts: 3|ep: 2, dp: 2|$batch||8:16|parallel.ep: 2 does not divide experts = 3; use ep: 1"
  "ep without experts|$model|ep: 2, dp: 2|$batch||8:16|parallel.ep: 2 needs a model with experts; use ep: 1"
  "experts of gpt2|gpt2 $model, experts: 4|dp: 1|$batch||3:78|train.model.experts: 4 experts, but gpt2 is dense"
  "more stages than layers|$model|pp: 5|$batch||8:16|parallel.pp: .* = 5 pieces are more than the 4 layers"
  "more pieces than layers|$model|pp: 2, schedule: interleaved, virtual_stages: 3|$batch||8:16|parallel.pp: .*2 x 3 = 6 pieces are more than the 4 layers"
  "virtual stages of 1f1b|$model|pp: 2, virtual_stages: 2|$batch||8:35|parallel.virtual_stages: only the interleaved schedule has virtual stages"
  "interleaved and micro-batches|$model|pp: 2, schedule: interleaved|global: 6, micro: 2||8:29|parallel.schedule: interleaved needs micro-batches in multiples of pp = 2"
  "zero-bubble and full|$model|pp: 2, schedule: zero-bubble|$batch|recompute: full|7:14|train.recompute: cannot be with schedule zero-bubble"
  "zero-bubble and selective|$model|pp: 2, schedule: zero-bubble|$batch|recompute: selective|7:14|train.recompute: cannot be with schedule zero-bubble"
  "stages that are too few|$model|pp: 2, stages: [4]|$batch||8:27|parallel.stages: has 1 pieces, but pp x virtual_stages = 2 x 1 = 2"
  "stages with other layers|$model|pp: 2, stages: [1, 2]|$batch||8:27|parallel.stages: has 3 layers together, but the model has 4"
  "a stage without layers|$model|pp: 2, stages: [0, 4]|$batch||8:28|parallel.stages: must be a whole number from 1"
  "an unknown schedule|$model|pp: 2, schedule: 2f2b|$batch||8:29|parallel.schedule: must be 1f1b, interleaved or zero-bubble, not \"2f2b\""
  "ZeRO 4|$model|zero: 4|$batch||8:18|parallel.zero: must be a whole number from 0 to 3"
  "batch and micro|$model|tp: 2|global: 8, micro: 3||5:19|train.batch.global: 8 is not a multiple of micro x dp = 3 x 1"
  "batch and dp|$model|dp: 3|global: 8||5:19|train.batch.global: 8 sequences cannot be divided by dp = 3"
  "batch, micro and dp|$model|dp: 2|global: 8, micro: 8||5:19|train.batch.global: 8 is not a multiple of micro x dp = 8 x 2 = 16"
  "heads and hidden|heads: 5, context: 32|dp: 1|$batch||3:54|train.model.heads: hidden 32 cannot be divided by 5 heads"
  "odd heads that turn|heads: 32, context: 32|dp: 1|$batch||3:54|train.model.heads: hidden / heads = 32 / 32 = 1 must be even"
  "kv_heads and heads|$model, kv_heads: 3|dp: 1|$batch||3:80|train.model.kv_heads: 4 heads cannot be divided by 3 kv_heads"
  "kv_heads of gpt2|gpt2 $model, kv_heads: 2|dp: 1|$batch||3:79|train.model.kv_heads: gpt2 has as many as heads"
  "top_k and experts|$model, experts: 2, top_k: 3|dp: 1|$batch||3:89|train.model.top_k: 3 is more than the 2 experts there are"
  "top_k 0|$model, experts: 2, top_k: 0|dp: 1|$batch||3:89|train.model.top_k: must be at least 1 with experts"
  "capacity without experts|$model, capacity: 1.5|dp: 1|$batch||3:80|train.model.capacity: 1.5, but the model has no experts"
  "a vocabulary that bytes do not fit in|$model, vocab: 97|dp: 1|$batch||3:77|train.model.vocab: 97 is too small"
  "evaluation of nothing|$model|dp: 1|$batch|eval: {every: 5}|7:17|train.eval.every: every 5 steps, but there is nothing to evaluate on"
  "an unknown precision|$model|dp: 1|$batch|precision: fp16|7:14|train.precision: must be fp32, bf16 or fp8"
  "a guard without patience|$model|dp: 1|$batch|guard: {patience: 0}|7:21|train.guard.patience: must be a whole number from 1"
  "more warm-up than steps|$model|dp: 1|$batch|optimizer: {warmup: 3}|7:23|train.optimizer.warmup: 3 is more than the 2 steps"
)
plan $((2 * ${#cases[@]} + 8))

refuses() { # refuses PLACE SENTENCE COMMAND...
  local place=$1 sentence=$2 rc; shift 2
  "$@" bad.yaml >out 2>err; rc=$?
  [ $rc -eq 2 ] && [ ! -s out ] && grep -qE "^bad.yaml:$place: .*$sentence" err && return
  diag "exit code $rc, expected 2 and bad.yaml:$place: $sentence" "$(head -c 500 out err)"
  return 1
}
for case in "${cases[@]}"; do
  IFS='|' read -r what more mesh of_step train place sentence <<<"$case"
  write "$more" "$mesh" "$of_step" "$train"
  ok "$what: belay validate" refuses "$place" "$sentence" belay validate
  ok "$what: belay-train" refuses "$place" "$sentence" belay-train
done
ok "nothing was written" test ! -e ckpt-bad
write "$model" "dp: 1" "$batch" ""
ok "without a mistake it is valid" belay validate bad.yaml
ok "and runs" to out belay-train bad.yaml
belay-train genrate --checkpoint ckpt >out 2>err
is "a command with a typo: exit code" $? 2
like "and the command that is meant" "$(cat err)" 'there is neither a command nor a job file "genrate": did you mean belay-train generate'

# --- token files that do not say their tokenizer, as nanoGPT's
job_file bare
head -c 8000 corpus.txt | perl -0777 -ne 'print pack("v*", unpack("C*"))' >bare.bin
bare=(--set train.data.path=bare.bin --set train.steps=1 --set train.optimizer.warmup=0 --set checkpoint.resume=never)
ok "tokens of a larger vocabulary run" to out belay-train bare.yaml "${bare[@]}" --set train.model.vocab=300
like "and bytes are doubted, which nobody named" "$(cat out)" 'do not say which tokenizer made them, and train.data.tokenizer is bytes'
is "of 256 tokens they are not" "$(belay-train bare.yaml "${bare[@]}" 2>&1 | grep -oE 'which tokenizer|step +1/1')" "$(grep -o 'step  *1/1' out)"
