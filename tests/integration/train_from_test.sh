#!/usr/bin/env bash
# A new run starts with the weights of a checkpoint or of a Hugging Face folder, on any mesh; what does not fit is refused.
. "$(dirname "$0")/train_lib.sh"
plan 17

first_loss() { sed -n 2p "$1/metrics.csv" | cut -d, -f2; }
near() { perl -e 'exit !(abs($ARGV[0] - $ARGV[1]) <= 1e-6 * abs $ARGV[1])' "$1" "$2"; }
still=(--set train.optimizer.lr=0 --set train.optimizer.min_lr=0 --set train.optimizer.warmup=0 --set train.steps=1)

job_file base
ok "a run to start from" to out belay-train base.yaml
ok "it leaves in Hugging Face's layout" to out belay-train export base --out hf
job_file hf1; job_file hf4; job_file ck; job_file other
ok "its first loss, from the checkpoint" to out belay-train ck.yaml --set train.from=base "${still[@]}"
ok "from Hugging Face's layout" to out belay-train hf1.yaml --set train.from=hf "${still[@]}"
ok "the same on tp 2 x pp 2" to out under 4 belay-train hf4.yaml --set train.from=hf --set parallel.tp=2 --set parallel.pp=2 "${still[@]}"
ok "all begin alike" near "$(first_loss ck)" "$(first_loss hf1)"
ok "the mesh, too" near "$(first_loss hf4)" "$(first_loss hf1)"
ok "below where the first run began" perl -e 'exit !($ARGV[0] < $ARGV[1] - 0.1)' "$(first_loss hf1)" "$(first_loss base)"
belay-train other.yaml --set train.from=hf --set train.model.layers=3 >out 2>err
like "another model is refused: 93" "$? $(cat err)" '^93 .*train.from: .*layers'
cp -r base/step-00000024 damaged && printf xxxx | dd of=damaged/rank-00000.safetensors bs=1 seek=20000 conv=notrunc 2>/dev/null
for n in 1 2; do
  under "$n" belay-train other.yaml --set train.from=damaged --set "parallel.dp=$n" >out 2>err
  like "damaged weights are refused, $n rank(s)" "$? $(cat err)" '^1 .*train.from: damaged/rank-00000.safetensors is damaged'
done
still+=(--set train.model.vocab=300)
job_file wide; job_file same
ok "token files with a tokenizer of their own" to out belay-train prepare --out words --train-tokenizer 300 corpus.txt
ok "weights trained on bytes" to out belay-train wide.yaml "${still[@]}"
ok "a run on bytes begins with them" to out belay-train same.yaml --set train.from=wide "${still[@]}"
is "without a word on tokens" "$(grep -c 'another tokenizer' out)" 0
ok "one on the other tokens, too" to out belay-train other.yaml --set train.from=wide --set train.data.path=words --set train.data.tokenizer=words "${still[@]}"
like "and says that they are others" "$(cat out)" 'weights of wide/step-00000001 were trained with another tokenizer \(bytes\) than made train.data'
