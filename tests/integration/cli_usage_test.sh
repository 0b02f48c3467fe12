#!/usr/bin/env bash
# The command line without a cluster: help, the nearest word, exit codes 2 and 3, and that nothing is made on the way.
. "$(dirname "$0")/../lib.sh"
plan 54
cd "$SCRATCH" || exit 1

fails() { # WHAT CODE REGEX COMMAND...: exit code, nothing on stdout, one sentence on stderr
  local what=$1 code=$2 regex=$3 rc; shift 3
  "$@" >out 2>err </dev/null; rc=$?
  if [ "$rc" -eq "$code" ] && [ ! -s out ] && grep -qE -- "$regex" err; then ok "$what" true; else
    ok "$what" false; diag "exit $rc, stdout: $(cat out)" "stderr: $(cat err)"; fi
}
cat >good.yaml <<'Y'
name: good
run: {command: ["/bin/true"], ranks: 2}
resources: {device: cpu}
Y
printf 'name: bad\nrun: {command: ["/bin/true"], rank: 2}\n' >bad.yaml

fails "no command shows the overview and fails" 2 "usage: belay COMMAND" belay
fails "an unknown command names the nearest" 2 'did you mean `belay submit`' belay submti
fails "a far one does not" 2 '`belay help` lists them' belay xyzzy
fails "an option before the command" 2 "the command comes before its options: belay COMMAND --dir" belay --dir . status
fails "a word too many where none is wanted" 2 "one word too many: belay up$" belay up 4
fails "an unknown option names the nearest" 2 "did you mean --follow" belay submit --folow good.yaml
fails "a missing word" 2 "belay submit FILE" belay submit
fails "a word too many" 2 "one word too many" belay nodes node0
fails "a number that is none" 2 "whole number" belay up --nodes four
fails "a number out of range" 2 "whole number from 1" belay up --slots 0
fails "more racks than nodes" 2 "one node per rack" belay up --nodes 1 --racks 2
fails "-o something else" 2 "table, wide or json" belay status -o yaml
fails "drain without a reason" 2 "reason" belay drain node0
fails "drain with a wrong deadline" 2 "duration such as 30m" belay drain node0 --reason x --deadline soon
fails "--now and --deadline" 2 "not both" belay drain node0 --reason x --now --deadline 5m
fails "a file that is not there" 2 "cannot open the job file nope.yaml" belay submit nope.yaml
fails "a file that is a folder" 2 "cannot read the job file" belay validate .
head -c 10000000 /dev/zero | tr '\0' a >big.yaml
fails "a file of 10 MB" 2 "larger than 1024 KiB" belay submit big.yaml
fails "a wrong file names line and column before any server is asked" 2 "^bad.yaml:2:" belay submit bad.yaml
like "and the nearest word" "$(cat err)" 'ranks'
fails "a wrong --set names itself" 2 "^--set run.rank=3" belay submit good.yaml --set run.rank=3

rm -rf "$BELAY_DIR"/*
for c in status nodes events "status 1" "cancel 1" "submit good.yaml" "run good.yaml" "events -f"; do
  # shellcheck disable=SC2086
  fails "belay $c without a cluster" 3 "cannot reach belayd at .*belay up --dir" belay $c
done
ok "down without a cluster is done" quiet belay down
ok "and nothing was made" test ! -e "$BELAY_DIR/belayd.db"

like "validate says what the file asks for" "$(belay validate good.yaml --set run.ranks=3)" "good.yaml is valid: good: /bin/true on 3 ranks"
belay validate good.yaml --set placement.spares=1 --set notify.url=https://example.org/ >out 2>err
like "validate says what has no effect yet" "$(cat err)" "note: notify has no effect yet"
like "validate reads standard input" "$(belay validate - <good.yaml)" "^- is valid"

# ---- notes: what may be a mistake is said on stderr, and nothing else changes
cat >train.yaml <<'Y'
name: small
train:
  model: {arch: gpt2, layers: 2, hidden: 64, heads: 2, context: 64}
  data: {path: data.txt}
  steps: 10
  batch: {global: 4, micro: 1}
Y
notes() { { belay validate "$@" >/dev/null; } 2>&1; }
nothing="nothing is there on this host; ranks look for it on their nodes"
here=", relative to the folder of the submit \(here $(realpath .)\)"
like "a corpus that this host does not have" "$(notes train.yaml)" "^train.yaml: note: train.data.path data.txt: $nothing$here\$"
ok "is no mistake" eval "belay validate train.yaml >/dev/null 2>&1"
like "nor in what comes by standard input" "$(notes - <train.yaml)" "^-: note: train.data.path data.txt: $nothing$here\$"
belay submit train.yaml >out 2>err
like "submit says it, too" "$(cat err)" "^train.yaml: note: train.data.path data.txt: $nothing"
belay run train.yaml >out 2>err
like "and run" "$(cat err)" "^train.yaml: note: train.data.path data.txt: $nothing"
like "one from --set" "$(notes train.yaml --set train.data.path=/none/x.bin)" "^train.yaml: note: train.data.path /none/x.bin: $nothing\$"
: >data.txt; mkdir shards; : >shards/a.bin; : >pair.bin; : >pair.idx; : >half.bin
for path in data.txt shards "shards/*.bin" pair pair.idx "$PWD/data.txt"; do
  is "$path is there" "$(notes train.yaml --set train.data.path="$path")" ""
done
like "a pattern that finds nothing" "$(notes train.yaml --set train.data.path='shards/*.txt')" "train.data.path shards/\*.txt: $nothing"
like "half of a pair" "$(notes train.yaml --set train.data.path=half)" "train.data.path half: $nothing"
is "of a mixture only what is missing" "$(notes train.yaml --set 'train.data={mix: [{path: data.txt}, {path: nope.bin}]}' | sed "s/: nothing.*//")" \
  "train.yaml: note: train.data.mix: nope.bin"
is "tokenizer and first weights, too" "$(notes train.yaml --set train.data.tokenizer=bpe --set train.from=hf | sed "s/: nothing.*//" | tr '\n' '|')" \
  "train.yaml: note: train.data.tokenizer bpe|train.yaml: note: train.from hf|"
is "memory that is enough" "$(notes train.yaml --set resources.memory=256MiB)" ""
like "memory that is too little" "$(notes train.yaml --set resources.memory=1MiB)" \
  "^train.yaml: note: a rank is predicted to need [0-9.]+ MiB on a CPU and resources.memory sets 1.00 MiB aside; placement counts only what is set aside: write resources.memory: 32MiB\$"
like "rules that auto meets by chance only" "$(notes train.yaml --set checkpoint.every=auto --set checkpoint.keep_every=100)" "note: checkpoint.keep_every is for saves of steps that it divides, .*write a number of steps\$"
like "none for a large model" "$(notes train.yaml --set 'train.model={preset: llama3-8b, context: 128}')" \
  "a rank is predicted to need 21[0-9] GiB on a CPU and resources.memory sets nothing aside; .*: write resources.memory: 220GiB\$"
