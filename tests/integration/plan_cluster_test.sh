#!/usr/bin/env bash
# belay plan in a cluster, running or on paper: the sentence first, exit codes 0, 6 and 7, JSON, and the picture.
. "$(dirname "$0")/../lib.sh"
ROOT=$PWD
plan 76
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
exits "in bf16" 0 belay plan train.yaml --set train.precision=bf16
like "it is for the CPUs of the cluster that runs" "$(cat out)" "^gpt2 with .* parameters on 4 cpu"
like "which is said" "$(cat out)" "^note: its ranks would be on CPUs, so it is predicted for them; --gpu TYPE says"
cp out by-itself; belay plan train.yaml --set train.precision=bf16 --set resources.device=cpu | grep -v '^note: ' >asked
ok "over the links of CPUs" diff asked <(grep -v '^note: ' by-itself)
like "or for what --gpu says" "$(belay plan train.yaml --set train.precision=bf16 --gpu h100 | grep -E '^note|^gpt2' | tr '\n' '|')" \
  "on 4 h100: .*note: 4 of its ranks would be on cpu: predicted as if all were h100; resources.device chooses between CPUs and GPUs"
like "of what can never run there, too" "$(belay plan train.yaml --set train.precision=bf16 --set parallel.dp=8 --set train.batch.global=8)" "^note: the nodes of this cluster are CPUs"
like "but for GPUs what asks for them" "$(belay plan train.yaml --set train.precision=bf16 --set resources.device=gpu)" "parameters on 4 h100"
like "memory that it needs and does not set aside" "$(belay plan train.yaml --set resources.memory=1MiB)" "^note: a rank is predicted to need .*resources.memory: 32MiB"
is "and no note of it where it does" "$(belay plan train.yaml --set resources.memory=64MiB | grep -c '^note: ')" 0
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

# --- a mesh that is searched for is asked about like one that is given
tops=$ROOT/tests/topologies
exits "more than the cluster has, whatever the mesh" 7 belay plan --model llama3-405b --gpus 16384 --cluster "$tops/two-racks.yaml"
like "is said first" "$(head -1 out)" "^It never fits: needs 16384 GPU slots, the cluster has 128"
exits "what it proposes, it can place" 0 belay plan --model llama3-405b --gpus 16384 --cluster "$paper" -o json
is "on all ranks, TP in the server" "$(json .verdict.placement.length <out) $(json .traffic.axes.0.level <out)" "16384 node"
printf 'name: six\ndevices: {type: h200, per_node: 6}\npods:\n  - {name: p, racks: "r[1-2]", nodes: "n[1-4]"}\n' >six.yaml
few=(belay plan --model llama3-70b --gpus 20 --global 40 --zero 2 --recompute none --cluster six.yaml)
"${few[@]}" --search -o json >out
is "the fastest mesh may be one that the nodes cannot hold" "$(json .0.tp <out) $(json .0.verdict <out)" "4 never"
exits "and a search that shows another exits as that" 0 "${few[@]}" --search
sed 's/h200/h100/' six.yaml >six-h100.yaml
exits "nor does one that cannot be placed spoil it" 0 belay plan --model llama3-70b --gpus 20 --global 640 --zero 0 --cluster six-h100.yaml --search
like "though it is there" "$(sed -n 4p out)" "never fits"
exits "but not when it is not shown" 7 "${few[@]}" --search --top 1
exits "without a search the best that they can is taken" 0 "${few[@]}" -o json
is "with narrower groups" "$(json .mesh.tp <out)" 2
exits "with a picture" 0 belay plan --model llama3-8b --gpus 64 --cluster "$tops/two-racks.yaml" --svg best.svg
is "of every rank" "$(grep -o 'rank [0-9]*' best.svg | sort -u | wc -l)" 64
exits "a search asks about each mesh" 6 belay plan --model llama3-70b --gpus 512 --cluster "$tops/half-drained.yaml" --search --top 3 -o json
is "and tells" "$(json .0.verdict <out) $(json .2.verdict <out)" "capacity capacity"
exits "as a table" 6 belay plan --model llama3-70b --gpus 512 --cluster "$tops/half-drained.yaml" --search --top 3
like "in a column of its own" "$(cat out)" "IN THE CLUSTER.*"
like "with the reason" "$(cat out)" "waits for 512 GPU slots"

# --- memory decides before what is free
exits "free slots do not help" 7 belay plan --model llama3-8b --gpus 8 --dp 8 --cluster "$tops/two-racks.yaml"
is "a job whose memory does not fit" "$(head -1 out)" "It never fits: a device needs 82.5 GB and has 80 (h100), though slots for all its ranks are free."
like "and what would help" "$(cat out)" "to change +with zero 2 a device would need 68.4 GB"
belay plan --model llama3-8b --gpus 8 --dp 8 --cluster "$tops/two-racks.yaml" -o json >out
is "in JSON too" "$(json .verdict.verdict <out)" never

# --- borders in words
exits "a border wider than the node" 0 belay plan --model llama3-70b --gpus 72 --tp 8 --dp 9 --global 72 --cluster "$tops/nvl72.yaml" --set 'placement={tp: {within: nvlink}}'
like "is named as people call it" "$(cat out)" "needs +72 ranks; each TP group within an NVLink domain"

# --- the transcripts of docs/cli.md
repeats() { # COMMAND...: what it prints up to the first empty line stands in docs/cli.md
  ok "docs/cli.md has what \"$*\" prints" \
    perl -0777 -e 'my ($doc, $cmd, $out) = @ARGV; open my $f, "<", $doc; my $d = <$f>; exit(index($d, "\$ $cmd\n$out") < 0)' -- \
    "$ROOT/docs/cli.md" "$*" "$(cd "$ROOT" && "$@" | sed '/^$/,$d')"
}
repeats belay plan examples/plan-llama3-70b.yaml --cluster tests/topologies/half-drained.yaml
repeats belay plan --model llama3-70b --gpus 64 --gpu h100 --search --top 4
repeats belay plan --model llama3-405b --gpus 16384 --gpu h100 --tp 8 --pp 16 --virtual 8 --zero 1 --global 2048 --tokens 15e12

# --- which device
exits "a job for CPUs" 0 belay plan "$ROOT/examples/llama.yaml" --cluster "$tops/half-drained.yaml" -o json
is "is one also among GPUs" "$(json .mesh.device <out)" cpu
exits "--gpu of none that is there" 2 belay plan --model llama3-8b --gpus 8 --gpu a100 --cluster "$tops/two-racks.yaml"
like "is refused" "$(cat err)" "has no a100-80g: its first devices are h100"
cat >mixed.yaml <<'END'
name: mixed
devices: {type: h100, per_node: 8}
pods:
  - name: pod1
    racks:
      - {name: rack1, nodes: "gpu[1-8]"}
      - {name: rack2, nodes: "tray[01-18]", nvlink: rack, devices: {type: b200, per_node: 4}}
END
exits "ranks that fit on one kind of several" 0 belay plan --model llama3-8b --gpus 64 --tp 4 --cluster mixed.yaml -o json
is "are predicted for the one they go to" "$(json .mesh.device <out) $(json .verdict.placement.0.node <out)" "b200 tray01"
exits "on two kinds" 0 belay plan --model llama3-8b --gpus 128 --tp 4 --cluster mixed.yaml
like "for the slower" "$(cat out)" "on 128 h100: "
like "which is said" "$(cat out)" "^note: 64 of its ranks would be on h100, 64 on b200: predicted as if all were h100"
sed 's/h100/mi300x/' "$tops/two-racks.yaml" >other.yaml
exits "a type that the planner does not know" 2 belay plan big.yaml --cluster other.yaml
like "is named with its file" "$(cat err)" "other.yaml has devices of type mi300x"
exits "programs of one's own are placed all the same" 0 belay plan "$ROOT/examples/hello.yaml" --cluster other.yaml
