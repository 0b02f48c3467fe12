#!/usr/bin/env bash
# `belay checkpoints list|verify|diff|prune|copy` on what belay-train has written. No cluster runs.
. "$(dirname "$0")/train_lib.sh"

# says CODE REGEX WHAT COMMAND...: exit code, and the regular expression is in what it prints (both streams)
says() {
  local code=$1 regex=$2 what=$3 rc; shift 3
  "$@" >said 2>&1 </dev/null; rc=$?
  if [ "$rc" -eq "$code" ] && grep -qE -- "$regex" said; then ok "$what" true; else
    ok "$what" false; diag "exit $rc, not $code; wanted: $regex" "$(cat said)"; fi
}
steps() { (cd "$1" && echo step-* | sed 's/step-0*//g'); }
ckpt() { belay checkpoints "$@"; }
flip() { # flip FILE OFFSET: one bit
  perl -e 'open my $f, "+<", $ARGV[0] or die; binmode $f; seek $f, $ARGV[1], 0; read $f, $b, 1; seek $f, $ARGV[1], 0; print $f chr(ord($b) ^ 4)' "$1" "$2"
}
rank() { printf '%s/step-%08d/rank-%05d.safetensors' "$@"; }

# Evaluated every 10 steps, saved every 5: every other one has a held-out loss.
eval_job() { # eval_job NAME: job_file, with a part held out
  job_file "$1"
  sed -i 's/tokenizer: bytes}/tokenizer: bytes, holdout: 0.1}\n  eval: {every: 10, sequences: 8}/; s/keep: 3/keep: 9/' "$1.yaml"
}
eval_job one
ok "one rank trains" to out belay-train one.yaml
eval_job two
ok "two replicas train" to out ranks 2 belay-train two.yaml
eval_job zero
ok "and two with ZeRO-1" to out ranks 2 belay-train zero.yaml --set parallel.zero=1

# --- list
says 0 'STEP +TIME +AGE +SIZE +MESH +LOSS +STAYS +STATE' "list has its columns" ckpt list two
like "the newest three stay by default" "$(grep -c ' newest ' said)" '^3$'
like "the mesh" "$(sed -n 2p said)" ' dp2 '
like "which is the latest" "$(grep ', latest' said)" '^ *24 '
ckpt list one -o json >list.json
is "steps, oldest first" "$(json .0.step <list.json) $(json .4.step <list.json) $(json .length <list.json)" "5 24 5"
is "an evaluated step has its loss as in metrics.csv" "$(json .1.held_loss <list.json | cut -c1-9)" \
  "$(perl -F, -lane 'if ($. == 1) { for (0..$#F) { $c = $_ if $F[$_] eq "held_loss" } } elsif ($F[0] == 10) { print substr($F[$c], 0, 9) }' one/metrics.csv)"
is "another has none" "$(json .0.held_loss <list.json)" null
is "whole" "$(json .4.complete <list.json) $(json .4.problem <list.json) $(json .4.latest <list.json)" "true null true"
ckpt list one --keep 1 --keep-every 10 --keep-best 1 -o json >list.json
is "why each would stay" "$(for i in 0 1 2 3 4; do json .$i.stays.0 <list.json; done | xargs)" "null every null every newest"
says 0 'FORMAT' "list one checkpoint, wide" ckpt list one/step-00000010 -o wide
is "only that" "$(wc -l <said)" 2
mkdir empty
says 0 'empty has no checkpoint' "an empty directory" ckpt list empty
says 4 'there is no directory ./nowhere' "no directory" ckpt list ./nowhere
says 2 'is object storage' "object storage" ckpt list s3://bucket/x

# --- verify
says 0 'step-00000024: good, 2 files' "verify takes the newest" ckpt verify two
says 0 'step-00000005: good' "all of them" ckpt verify two --all
is "five" "$(grep -c good said)" 5
cp -r two bad
flip "$(rank bad 10 0)" 2000
truncate -s 3000 "$(rank bad 10 1)"
says 1 'step-00000010: bad, 2 of 2 files' "two damaged files" ckpt verify bad --step 10
like "the one with the flipped bit" "$(cat said)" 'rank-00000.safetensors is damaged: its hash'
like "and the short one" "$(cat said)" 'rank-00001.safetensors has 3000 bytes'
flip bad/step-00000015/manifest.json 200
rm "$(rank bad 24 1)"
says 1 'manifest.json: ' "a damaged manifest" ckpt verify bad/step-00000015
says 1 'rank-00001.safetensors: No such file' "a missing file, in the newest" ckpt verify bad
ckpt verify bad --all -o json >verify.json
is "exit code of -o json" $? 1
is "which are good" "$(for i in 0 1 2 3 4; do json .$i.good <verify.json; done | xargs)" "true false false true false"
says 0 'has 3000 bytes' "list says what is wrong without hashing" ckpt list bad
like "of each" "$(cat said)" '^ *15 .*manifest.json: '
says 4 'no checkpoint of step 11' "a step that is not there" ckpt verify two --step 11
says 4 'corpus.txt is no directory' "a file" ckpt verify corpus.txt
# the first manifest cannot be read before somebody writes it: meanwhile retention takes another checkpoint away
cp -r two gone && mkdir gone/step-00000001 && mkfifo gone/step-00000001/manifest.json
ckpt verify gone --all >said 2>&1 & verifying=$!
exec 8>gone/step-00000001/manifest.json
rm -r gone/step-00000005
exec 8>&-
wait "$verifying"
like "one that goes meanwhile is told as that" "$(cat said)" 'gone/step-00000005 was removed meanwhile'
is "only the one without a manifest is bad" "$(grep -c ': bad' said) $(grep -c ': good' said)" "1 4"
says 2 'leave --step out' "a step of one checkpoint" ckpt verify two/step-00000005 --step 5
says 2 'not together with --step' "--all and --step" ckpt verify two --all --step 5

# --- diff
says 0 'tensors [0-9]+ of [0-9]+ are equal bitwise' "the same checkpoint" ckpt diff one/step-00000010 one/step-00000010
says 0 'mesh dp2' "ZeRO or not, the numbers are the same" ckpt diff two zero
says 1 'model   the same' "another step" ckpt diff two/step-00000010 two
like "its place in the data" "$(sed -n 1p said)" 'step 10, 160 samples'
like "a tensor that differs" "$(cat said)" '^embed.weight +256 x 32 .* differs$'
says 1 ' differs$' "one rank and two differ in the last bits" ckpt diff one two
says 1 ' differs$' "what is nothing but rounding has no relative precision" ckpt diff one two --tolerance 1e-5
says 0 'more within the tolerance' "they do not differ by much" ckpt diff one two --tolerance 1e-5 --absolute 1e-5
ckpt diff one two --absolute 1e-5 -o json >diff.json
is "json" "$(json .different <diff.json) $(json .first.mesh.dp <diff.json) $(json .second.mesh.dp <diff.json)" "0 1 2"
says 2 'is not a number' "a tolerance that is none" ckpt diff one two --tolerance x

# --- copy
says 0 'copied to arch$' "copy makes the directory" ckpt copy two arch --step 10
says 0 'equal bitwise' "nothing is lost" ckpt diff two/step-00000010 arch
says 0 'has it already' "again" ckpt copy two/step-00000010 arch
says 5 'another checkpoint of the same step' "another of that step" ckpt copy one arch --step 10
says 5 'corpus.txt is no directory' "into a file" ckpt copy one corpus.txt --force
says 0 'copied' "the newest complete one" ckpt copy bad arch
is "is 20" "$(steps arch) $(cat arch/latest)" "10 20 step-00000020"
says 5 'rank-0000[01].safetensors' "a damaged one" ckpt copy bad/step-00000010 other
is "leaves nothing" "$(ls -A other 2>/dev/null)" ""
says 2 'AWS_ACCESS_KEY_ID' "to object storage without keys" env -u AWS_ACCESS_KEY_ID HOME="$SCRATCH" belay checkpoints copy two s3://bucket/x
says 2 's3:///x: must' "a wrong address" ckpt copy two s3:///x
says 2 'one of the two must be a directory' "from there to there" ckpt copy s3://a/b s3://c/d
ok "training goes on from a copy" to out ranks 2 belay-train two.yaml --set checkpoint.directory=arch --set train.steps=22
like "of step 20" "$(cat out)" 'resuming from step 20'

# --- prune
says 2 'say what stays' "prune wants rules" ckpt prune one
says 0 'step 5 would be removed' "or a dry run" ckpt prune one --dry-run
is "which removes nothing" "$(steps one)" "5 10 15 20 24"
echo '{"job":"7","attempt":2,"instance":"x","done":false,"time":"2026-01-01T00:00:00.000Z"}' >one/claim
says 5 'belongs to job 7 \(attempt 2\)' "not from under a job" ckpt prune one --keep 1
says 5 'belongs to job 7' "nor into its directory" ckpt copy two one --step 5
is "nothing has changed" "$(steps one)" "5 10 15 20 24"
says 0 '3 of 5 checkpoints stay' "unless by force" ckpt prune one --keep 2 --keep-every 10 --keep-best 1 --force
is "as the rules say" "$(steps one)" "10 20 24"
rm one/claim
says 0 'nothing to remove' "and no more" ckpt prune one --keep 3
flip "$(rank one 24 0)" 3000
says 5 'nothing was removed, since the newest checkpoint is damaged' "a damaged newest one" ckpt prune one --keep 1
says 2 'is one checkpoint' "not of one checkpoint" ckpt prune one/step-00000010 --keep 1
# the trainer's own purge, with its evaluations: the last two, every 10th, and the best evaluated one
eval_job rules
ok "training removes by the same rules" to out belay-train rules.yaml --set checkpoint.keep=1 --set checkpoint.keep_every=10
is "the newest and every tenth" "$(steps rules)" "10 20 24"
eval_job best
ok "and keeps the best" to out belay-train best.yaml --set checkpoint.keep=1 --set checkpoint.keep_best=2
is "of those that were evaluated" "$(steps best)" "20 24"
plan "$TAP_COUNT"
