#!/usr/bin/env bash
# Trained models of every architecture go out, and what was exported begins other runs: the same loss bit for bit, the same bytes again from another mesh.
. "$(dirname "$0")/train_lib.sh"
plan 24

loss() { sed -n 2p "$1/metrics.csv" | cut -d, -f2; }
below() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a < b) }'; }
alike() { awk -v a="$1" -v b="$2" 'BEGIN { d = (a - b) / a; exit !(d < 1e-6 && d > -1e-6) }'; }
# still NAME FROM [--set ...]: one step without learning from these weights
still() {
  local name=$1 from=$2; shift 2
  sed "s/directory: .*, every/directory: $name, every/" job.yaml >"$name.yaml"
  belay-train "$name.yaml" --set train.steps=1 --set train.optimizer.lr=0 --set train.optimizer.min_lr=0 --set train.optimizer.warmup=0 --set "train.from=$from" "$@"
}

for kind in gpt2 llama mixtral; do
  arch=${kind/mixtral/llama}
  job_file "$kind" "$arch"
  if [ $kind = mixtral ]; then sed -i 's/context: 32}/context: 32, experts: 4, top_k: 2}/' $kind.yaml; fi
  cp $kind.yaml job.yaml
  ok "$kind learns on two ranks of tp" to out under 2 belay-train $kind.yaml --set parallel.tp=2
  ok "$kind goes out" to out belay-train export $kind --out $kind.hf
  ok "$kind begins with its checkpoint" to out-a still $kind-a $kind
  ok "$kind begins with what was exported" to out-b still $kind-b $kind.hf
  is "$kind: the same loss, bit for bit" "$(loss $kind-a)" "$(loss $kind-b)"
  ok "$kind has not forgotten" below "$(loss $kind-a)" "$(loss $kind)"
done
like "says with which weights" "$(cat out-a)" '^starting from the weights of mixtral/step-00000024$'
sed 's/directory: .*, every/directory: mesh, every/; s/every: 5/every: 1/' job.yaml >mesh.yaml
ok "mixtral on four ranks, ep 2 and tp 2, with ZeRO" to out under 4 belay-train mesh.yaml --set train.steps=2 --set train.optimizer.lr=0 --set train.optimizer.min_lr=0 \
  --set train.optimizer.warmup=0 --set train.from=mixtral.hf --set parallel.tp=2 --set parallel.dp=2 --set parallel.ep=2 --set parallel.zero=1
ok "the same loss to 1e-6" alike "$(loss mesh)" "$(loss mixtral-a)"
ok "goes out of there" to out belay-train export mesh --out mesh.hf
is "the same bytes" "$(cat mesh.hf/model.safetensors | md5sum)" "$(cat mixtral.hf/model.safetensors | md5sum)"
still other gpt2.hf >out 2>err
is "another model: do not retry, and say why" "$?$(grep -c 'gpt2.hf: it is of another model: its arch is gpt2' err)" 931
