#!/usr/bin/env bash
# belay plan without a cluster: the report, JSON with stable keys, exit codes, the search, cluster files, and what is said about wrong words.
. "$(dirname "$0")/../lib.sh"
ROOT=$PWD
cd "$SCRATCH" || exit 1

fails() { # WHAT CODE REGEX COMMAND...: exit code, nothing on stdout, one sentence on stderr
  local what=$1 code=$2 regex=$3 rc; shift 3
  "$@" >out 2>err </dev/null; rc=$?
  if [ "$rc" -eq "$code" ] && [ ! -s out ] && grep -qE -- "$regex" err; then ok "$what" true; else
    ok "$what" false; diag "exit $rc, stdout: $(cat out)" "stderr: $(cat err)"; fi
}
exits() { # WHAT CODE COMMAND...: exit code, its output in out
  local what=$1 code=$2 rc; shift 2
  "$@" >out 2>err </dev/null; rc=$?
  is "$what" "$rc" "$code" || diag "stderr: $(cat err)"
}
near() { # WHAT NUMBER LOW HIGH
  ok "$1" perl -e 'exit !($ARGV[0] >= $ARGV[1] && $ARGV[0] <= $ARGV[2])' -- "$2" "$3" "$4"
}

# ---- a model and a number of devices: the best mesh is reported
exits "a model on GPUs needs no cluster and no file" 0 belay plan --model gpt3-175b --gpus 1024 --gpu h100 --tokens 300e9
like "the first line is one plain sentence" "$(head -1 out)" '^gpt3-175b with 175G parameters on 1024 h100: 300G tokens in [0-9.]+ days at .* MFU, .* of 80 GB a device\.$'
for section in Model Mesh "Memory of the fullest device" "Traffic of a rank and step" Step Cost; do
  ok "it has the section $section" grep -qx "$section" out
done
like "parameters by part" "$(cat out)" 'attention +58.0G  \(604M a block\)'
like "every ZeRO stage" "$(cat out)" '^ +3  and weights +[>!]*[0-9.]+ +[>!]*[0-9.]+ +[>!]*[0-9.]+$'
like "keys and values at inference" "$(cat out)" 'Inference: 9.66 GB'
like "energy" "$(cat out)" 'energy .* MWh at 700 W a device'

# ---- the same as JSON, on a mesh of the user's
exits "a mesh of one's own" 0 belay plan --model llama3-405b --gpus 8192 --gpu h100 --tp 8 --pp 16 --virtual 8 --zero 1 --global 2048 --tokens 15e12 --watts 1000 -o json
cp out plan.json
is "the mesh is the one asked for" "$(json .mesh.dp <plan.json) $(json .mesh.schedule <plan.json) $(json .mesh.precision <plan.json)" "64 interleaved bf16"
is "parameters" "$(json .model.parameters.total <plan.json)" 405853388800
near "MFU near the published 43 %" "$(json .cost.mfu <plan.json)" 0.38 0.48
is "fits" "$(json .memory.fits <plan.json)" true
is "keys" "$(perl -MJSON::PP -e 'local $/; my $v = JSON::PP->new->decode(<STDIN>); print join " ", sort keys %$v' <plan.json)" "cost flops memory mesh model notes step traffic"
is "keys of cost" "$(perl -MJSON::PP -e 'local $/; my $v = JSON::PP->new->decode(<STDIN>); print join " ", sort keys %{$v->{cost}}' <plan.json)" \
  "days hfu kwh mfu mfu_full_attention steps tokens tokens_per_s tokens_per_s_device tokens_per_step watts"
is "keys of the step" "$(perl -MJSON::PP -e 'local $/; my $v = JSON::PP->new->decode(<STDIN>); print join " ", sort keys %{$v->{step}}' <plan.json)" \
  "attention bubble bubble_share cp dp elementwise ep jitter optimizer pp products recompute seconds tp"
is "four ZeRO stages" "$(json .memory.zero.length <plan.json)" 4
is "five axes, TP in the node" "$(json .traffic.axes.length <plan.json) $(json .traffic.axes.0.axis <plan.json) $(json .traffic.axes.0.level <plan.json)" "5 TP node"
is "watts as given" "$(json .cost.watts <plan.json)" 1000
ok "energy is watts x devices x days" perl -e 'exit !(abs($ARGV[0] / ($ARGV[1] * 24 * 8192) - 1) < 1e-6)' -- "$(json .cost.kwh <plan.json)" "$(json .cost.days <plan.json)"

# ---- what does not fit
exits "a model too large exits with 7" 7 belay plan --model llama3-70b --gpus 8 --gpu a100-40g
like "and says by how much" "$(head -1 out)" 'does not fit: a device needs [0-9.]+ GB and has 40'
exits "in JSON too" 7 belay plan --model llama3-70b --gpus 8 --gpu a100-40g -o json
is "fits: false" "$(json .memory.fits <out)" false

# ---- search
exits "the search ranks meshes" 0 belay plan --model llama3-70b --gpus 64 --gpu h100 --search --top 3
like "it says how many there are" "$(head -1 out)" '^[0-9]+ meshes of 64 h100 for llama3-70b and 512 sequences a step, [0-9]+ of them fit:$'
like "and why the others lose" "$(cat out)" '^2 .* (waits for|pipeline bubble|smaller products|as fast)'
like "and how many more" "$(tail -1 out)" '^… and [0-9]+ more \(--top [0-9]+ shows all\)$'
exits "as JSON" 0 belay plan --model llama3-70b --gpus 64 --gpu h100 --search --top 5 -o json
is "five of them" "$(json .length <out)" 5
is "keys of a mesh" "$(perl -MJSON::PP -e 'local $/; my $v = JSON::PP->new->decode(<STDIN>); print join " ", sort keys %{$v->[0]}' <out)" \
  "cp days dp ep fits memory mfu micro pp recompute schedule seconds tokens_per_s tp virtual_stages why zero"
is "the best has no reason" "$(json .0.why <out)" ""
ok "the second is not faster" perl -e 'exit !($ARGV[0] <= $ARGV[1])' -- "$(json .0.seconds <out)" "$(json .1.seconds <out)"

# ---- what is given of a mesh is kept, and nothing is passed over in silence
mesh() { belay plan --model llama3-8b --gpus 8 "$@" -o json | perl -MJSON::PP -e 'local $/; my $m = JSON::PP->new->decode(<STDIN>)->{mesh}; print join " ", map { $m->{$_} } qw(zero micro recompute virtual_stages pp)'; }
like "a ZeRO stage" "$(mesh --zero 3)" '^3 '
like "none at all" "$(mesh --zero 0)" '^0 '
like "a micro-batch" "$(mesh --micro 4)" '^[0-9] 4 '
like "recomputation" "$(mesh --recompute full)" ' full '
like "virtual stages, so a pipeline" "$(mesh --virtual 2)" ' 2 [248]$'
belay plan --model llama3-70b --gpus 64 --gpu h100 --search --top 1000 --tp 8 --zero 1 -o json >out
is "a search keeps them too" "$(perl -MJSON::PP -e 'local $/; my $v = JSON::PP->new->decode(<STDIN>); my %n = map {; "$_->{tp} $_->{zero}" => 1 } @$v; print join ",", keys %n' <out)" "8 1"
belay plan --model llama3-70b --gpus 64 --gpu h100 --search --top 1000 -o json >out
is "and TP within a server, sequences of 8k whole" "$(perl -MJSON::PP -e 'local $/; my $v = JSON::PP->new->decode(<STDIN>); print scalar grep { $_->{tp} > 8 || $_->{cp} > 1 } @$v' <out)" 0
fails "limits that no mesh keeps are named" 2 'no mesh of 64 devices with tp 16 divides .* \(TP within a node\)' belay plan --model llama3-70b --gpus 64 --search --tp 16
fails "a search without a number" 2 'say how many: --gpus N' belay plan --model llama3-70b --search --tp 8
fails "virtual stages without a pipeline" 2 'it needs a --pp above 1' belay plan --model llama3-8b --gpus 8 --tp 8 --virtual 2
fails "--set of what is searched for" 2 '--set parallel.tp=8 says what is searched for here: use --tp' belay plan --model llama3-8b --gpus 8 --set parallel.tp=8
fails "a picture of many meshes" 2 'leave one away' belay plan --model llama3-8b --gpus 8 --search --svg x.svg

# ---- what one should know before believing it
exits "ZeRO-3 over 128 nodes" 0 belay plan --model gpt3-175b --gpus 1024 --zero 3 --dp 1024 --recompute full
like "is not confirmed" "$(sed -n 2p out)" '^note: no published run confirms ZeRO-3 over 1024 replicas'
like "B200 neither" "$(belay plan --model llama3-8b --gpus 8 --gpu b200 -o json | json .notes.0)" 'no published run confirms what is predicted for b200'
like "a batch too small for the pipeline" "$(belay plan --model llama3-405b --gpu h100 --tp 8 --pp 16 --dp 128 --global 256 | sed -n 2p)" '^note: 2 micro-batches cannot fill a pipeline of 16 ranks, which waits for 8[0-9] % of the step: a larger global batch would$'
is "H100 in the usual mesh is" "$(belay plan --model llama3-405b --gpus 16384 --gpu h100 --tp 8 --pp 16 --virtual 8 --zero 1 --global 2048 -o json | json .notes.length)" 0
like "gradients in fp32 would not fit" "$(json .notes.0 <plan.json)" '^gradients that are added up in fp32, as in .*, take 6\.4 GB more than is planned: 82\.[0-9] of 80 GB a device'
is "with ZeRO-2 they are cut" "$(belay plan --model llama3-405b --gpus 8192 --gpu h100 --tp 8 --pp 16 --virtual 8 --zero 2 --global 2048 -o json | json .notes.length)" 0
is "and nothing is said of what does not fit anyway" "$(belay plan --model llama3-8b --gpus 8 --gpu h100 --dp 8 -o json | json .notes.length)" 0
exits "a mesh that does not fit" 7 belay plan --model llama3-8b --gpus 8 --gpu h100 --dp 8
like "says in its first line what would" "$(head -1 out)" 'does not fit: a device needs 82.5 GB and has 80; with zero 2, recompute none it would need 68.4'
like "one that nothing helps" "$(belay plan --model llama3-405b --gpu h100 --dp 8 | head -1)" 'no ZeRO stage and no recomputation change that'
like "one token" "$(belay plan --model gpt2-124m --gpus 8 --gpu cpu --tokens 1 | head -1)" ': 1 token in [0-9.]+ ms at '
like "small models are in MB" "$(belay plan "$ROOT/examples/quickstart.yaml")" 'MB by ZeRO stage'

# ---- a job file
cat >job.yaml <<'Y'
name: mine
train:
  model: {arch: llama, layers: 8, hidden: 1024, heads: 16, context: 2048, vocab: 32000}
  data: {path: x.bin, tokenizer: bpe}
  steps: 1000
  batch: {global: 64, micro: 2}
  precision: bf16
parallel: {tp: 2, pp: 2, dp: 4}
Y
exits "a file that only GPUs could train" 0 belay plan job.yaml --gpu a100
like "is planned as it stands" "$(cat out)" '16 ranks: tp 2, pp 2, cp 1, dp 4; zero 0, recompute none, 1f1b'
like "its steps are the training" "$(cat out)" 'for 131M tokens in 1.00k steps'
exits "--set changes it" 0 belay plan job.yaml --set parallel.zero=1 --gpu a100 -o json
is "as asked" "$(json .mesh.zero <out)" 1
like "a file without a kind of device is for H100" "$(belay plan job.yaml | head -1)" 'on 16 h100'
like "one that trains in fp32 is for CPUs" "$(belay plan "$ROOT/examples/quickstart.yaml" | head -1)" 'on 4 cpu: .* MFU'
like "standard input" "$(belay plan - <job.yaml | head -1)" '^llama with'
quickstart=$ROOT/examples/quickstart.yaml
like "host memory that is not set aside" "$(belay plan "$quickstart" --set 'train.model={preset: llama3-8b, context: 128}' | sed -n 2p)" \
  '^note: a rank is predicted to need 1[0-9]{2} GiB and resources.memory sets [0-9.]+ [GM]iB aside; placement counts only what is set aside: write resources.memory: 1[0-9]0GiB$'
is "none of what is" "$(belay plan "$quickstart" | grep -c '^note: ')" 0
exits "the example for GPUs" 0 belay plan "$ROOT/examples/gpu.yaml" --gpu h200
like "is for eight, and fits" "$(head -1 out)" '^gpt2-124m with 124M parameters on 8 h200: 9.96G tokens in .* of 141 GB a device'
like "in fp8 it is planned as in bf16, which is said" "$(belay plan "$ROOT/examples/gpu.yaml" --set train.precision=fp8 2>/dev/null | sed -n 2p)" \
  '^note: fp8 is planned as bf16'
is "nothing is said of host memory" "$(belay validate "$ROOT/examples/gpu.yaml" 2>&1 | grep -c 'predicted to need')" 0
near_mib=$(belay plan "$quickstart" --set train.precision=bf16 --gpu cpu -o json | json .memory.total | perl -ne 'printf "%d", $_ / 1048576 + 1')
like "nor what fp32 gradients take besides in bf16" "$(belay plan "$quickstart" --set train.precision=bf16 --gpu cpu --set resources.memory="${near_mib}MiB" | sed -n 2p)" \
  '^note: a rank is predicted to need [0-9.]+ MiB \(1\.[0-9]+ MiB of it because the bundled runtime keeps gradients in fp32\) and resources.memory'
like "copies in memory are counted, three of a rank's own and two of the buddy's" "$(belay plan job.yaml --set checkpoint.memory.every=1 --gpu a100)" \
  "^  Host memory: +[0-9.]+ MB for checkpoint.memory, three copies of a rank's state and two of the buddy's\$"
is "five of what is one without them" "$(belay plan job.yaml --set checkpoint.memory.every=1 -o json | json .memory.images)" \
  "$(belay plan job.yaml -o json | json .memory.images | perl -ne 'print 5 * $_')"
like "a job for GPUs needs its nodes' memory for them" "$(belay plan job.yaml --set checkpoint.memory.every=1 --set resources.memory=1MiB --gpu a100)" \
  '^note: a rank is predicted to need [0-9.]+ MiB of its node.s memory for checkpoint.memory and resources.memory sets 1.00 MiB aside'
exits "the devices of a file may be searched too" 0 belay plan job.yaml --gpu h100 --search -o json
is "each mesh has all ranks" "$(perl -MJSON::PP -e 'local $/; my $v = JSON::PP->new->decode(<STDIN>); my %n = map { $_->{tp} * $_->{pp} * $_->{cp} * $_->{dp} => 1 } @$v; print join " ", keys %n' <out)" 16

is "on as many as one likes" "$(belay plan job.yaml --gpu h100 --gpus 4 --search --tp 2 -o json | perl -MJSON::PP -e 'local $/; my $v = JSON::PP->new->decode(<STDIN>); my %n = map {; $_->{tp} . " " . $_->{tp} * $_->{pp} * $_->{cp} * $_->{dp} => 1 } @$v; print join ",", keys %n')" "2 4"
like "the rule of thumb is said too" "$(belay plan --model llama3-70b --gpus 1024 --gpu h100 --tokens 15e12 --mfu 0.5)" '^ +at MFU 50.0% 145 days, by 6 x parameters x tokens$'

# ---- a cluster file
exits "links and sizes of a cluster file" 0 belay plan --model llama3-405b --gpus 16384 --tp 8 --pp 16 --virtual 8 --zero 1 --global 2048 --cluster "$ROOT/tests/topologies/llama3.yaml" -o json
is "its devices, and DP over pods" "$(json .mesh.device <out) $(json .traffic.axes.4.level <out)" "h100 cluster"
near "rings over few borders are not slowed by oversubscription" "$(json .cost.mfu <out)" 0.36 0.46
printf 'name: c\npods: 3\n' >bad.yaml
fails "a wrong cluster file names line and column" 2 '^bad.yaml:2:' belay plan job.yaml --cluster bad.yaml

# ---- wrong words
fails "nothing to plan" 2 'name a job file, or a model and GPUs' belay plan
fails "a file and a model" 2 'not both' belay plan job.yaml --model gpt3-175b
fails "a model without a number" 2 'say how many: --gpus N' belay plan --model gpt3-175b
fails "an unknown model names the nearest" 2 'no model called "gpt3-176b": did you mean gpt3-175b\?' belay plan --model gpt3-176b --gpus 8
fails "one that is like none" 2 'docs/job-file.md lists the presets' belay plan --model unheard-of --gpus 8
fails "an unknown GPU names the nearest" 2 'no device called "h10": did you mean h100\?' belay plan --model llama3-8b --gpus 8 --gpu h10
fails "another GPU is no slip" 2 'no device called "v100"; known are' belay plan --model llama3-8b --gpus 8 --gpu v100
fails "one that is like none lists all" 2 'known are a100-40g, a100-80g, h100' belay plan --model llama3-8b --gpus 8 --gpu radeon-7
fails "tokens that are none" 2 'such as 300e9' belay plan --model llama3-8b --gpus 8 --tokens many
fails "watts that are none" 2 'up to 1e\+06, such as 700' belay plan --model llama3-8b --gpus 8 --watts 700W
fails "an MFU above 1" 2 'up to 1, such as 0.5' belay plan --model llama3-8b --gpus 8 --mfu 50
fails "tokens below 0" 2 'such as 300e9' belay plan --model llama3-8b --gpus 8 --tokens -1
fails "a mesh that does not divide the GPUs" 2 '8 GPUs cannot be divided by tp x pp x cp = 3' belay plan --model llama3-8b --gpus 8 --tp 3
fails "a mesh that is not the GPUs" 2 'tp x pp x cp x dp is 4, not --gpus 8' belay plan --model llama3-8b --gpus 8 --tp 2 --dp 2
fails "a mesh beyond all bounds" 2 'more than 1048576 ranks' belay plan --model gpt3-175b --tp 1048576 --pp 1048576 --cp 1048576 --dp 1048576
fails "a mesh that does not divide the model" 2 'tp 64 does not divide the 32 heads' belay plan --model llama3-8b --gpus 64 --tp 64
fails "a batch that the mesh does not divide" 2 'plan: train.batch.global: 10 sequences cannot|plan: train.batch.global: 10 is not a multiple' belay plan --model llama3-8b --gpus 8 --dp 8 --global 10
fails "a wrong recomputation" 2 'must be none, selective or full' belay plan --model llama3-8b --gpus 8 --recompute some
fails "options of the mesh with a file" 2 '--set parallel.tp=8' belay plan job.yaml --tp 2
fails "a program of one's own" 2 'only train: jobs have a plan' belay plan "$ROOT/examples/hello.yaml"
fails "a file with mistakes" 2 '^-:1:1: |^-:' belay plan - 
ok "and nothing was made on the way" test ! -e "$BELAY_DIR"
plan "$TAP_COUNT"
