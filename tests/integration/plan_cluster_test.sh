#!/usr/bin/env bash
# belay plan in a cluster, running or on paper: the sentence first, exit codes 0, 6 and 7, JSON, and the picture.
. "$(dirname "$0")/../lib.sh"
ROOT=$PWD
plan 28
cd "$SCRATCH" || exit 1

exits() { # WHAT CODE COMMAND...: exit code; its output in out and err
  local what=$1 code=$2 rc; shift 2
  "$@" >out 2>err </dev/null; rc=$?
  is "$what" "$rc" "$code" || diag "stdout: $(head -3 out)" "stderr: $(cat err)"
}
sleeper() { printf 'name: %s\nrun: {command: [sleep, "600"], ranks: %s}\nresources: {device: cpu}\nlimits: {grace: 1s, time: 1h}\n' "$1" "$2"; }
cat >train.yaml <<'END'
name: small
train:
  model: {arch: gpt2, layers: 2, hidden: 64, heads: 2, context: 64}
  data: {path: x.txt}
  steps: 10
  batch: {global: 4, micro: 1}
parallel: {dp: 4}
END

# --- a cluster that runs
ok "two nodes with two slots" quiet belay up --nodes 2 --slots 2 || exit 1
exits "a job that fits" 0 belay plan train.yaml
is "is said first" "$(head -1 out)" "It could start now: 4 ranks on 2 nodes."
like "and then what it costs" "$(cat out)" "^gpt2 with .* parameters on 4 cpu"
exits "in JSON" 0 belay plan train.yaml -o json
is "the verdict" "$(json .verdict.verdict <out)" now
is "and where it would go" "$(json .verdict.placement.length <out)" 4
is "nothing was submitted" "$(belay status --all -o json | json .length)" 0
sleeper hog 3 >hog.yaml
hog=$(belay submit hog.yaml)
ok "another job runs" until_true 10 job_is "$hog" running
exits "now it would wait" 6 belay plan train.yaml
is "the sentence" "$(head -1 out)" "If it were submitted now: it waits for 4 free slots: other jobs hold them."
like "who blocks" "$(cat out)" "blocked by +job $hog \(hog"
like "what would change it" "$(cat out)" "with parallel.dp 1 instead of 4 it would start now"
exits "a program that can never run" 7 belay plan hog.yaml --set run.ranks=5
like "and why" "$(head -1 out)" "^It never fits: needs 5 CPU slots, the cluster has 4"
ok "nothing but the verdict is said of a program" test "$(grep -c Memory out)" = 0
exits "a picture" 6 belay plan train.yaml --svg now.svg
like "of the nodes" "$(cat now.svg)" "node1"
exits "a colour that is none" 2 belay plan train.yaml --svg x.svg --colour blue

# --- one on paper
cat >big.yaml <<'END'
name: llama
train:
  model: {preset: llama3-405b}
  data: {path: x.bin, tokenizer: llama3}
  steps: 1000000
  batch: {global: 2048, micro: 1}
  precision: bf16
parallel: {tp: 8, pp: 16, dp: 128, zero: 1, schedule: interleaved, virtual_stages: 8}
resources: {device: gpu}
END
paper=$ROOT/tests/topologies/llama3.yaml
exits "16,384 ranks on paper" 0 belay plan big.yaml --cluster "$paper" --svg big.svg -o json
is "TP in the server, PP in the pod, DP between pods" \
  "$(json .traffic.axes.0.level <out) $(json .traffic.axes.3.level <out) $(json .traffic.axes.4.level <out)" "node pod cluster"
is "every rank is drawn once" "$(grep -o 'rank [0-9]*' big.svg | sort -u | wc -l)" 16384
exits "more than the cluster has" 7 belay plan big.yaml --cluster "$paper" --set parallel.dp=256
like "is said" "$(head -1 out)" "^It never fits: needs 32768 GPU slots, the cluster has 24576"
exits "a mesh that does not fit the memory" 7 belay plan big.yaml --cluster "$paper" --set parallel.zero=0 --set parallel.pp=8 --set parallel.dp=256 --set parallel.virtual_stages=1 --set parallel.schedule=1f1b
exits "taken and drained nodes" 6 belay plan big.yaml --cluster "$ROOT/tests/topologies/half-drained.yaml" \
  --set train.model.preset=llama3-70b --set 'parallel={tp: 8, pp: 2, dp: 24, zero: 2}' --set train.batch.global=96
like "would wait" "$(head -1 out)" "^If it were submitted now: it waits"
like "and with the drained nodes back it would not" "$(cat out)" "with gpu013, .* back in service it would start now"
