#!/usr/bin/env bash
# `belay checkpoints copy` to object storage and back. The server: upload_lib.sh.
. "$(dirname "$0")/upload_lib.sh"

# copies CODE REGEX WHAT WORD...: `belay checkpoints copy WORD...`, its exit code and what it says
copies() {
  local code=$1 regex=$2 what=$3 rc; shift 3
  belay checkpoints copy "$@" --endpoint "$endpoint" >said 2>&1; rc=$?
  if [ "$rc" -eq "$code" ] && grep -qE -- "$regex" said; then ok "$what" true; else
    ok "$what" false; diag "exit $rc, not $code; wanted: $regex" "$(cat said)" "$(tail -n 20 s3/log)"; fi
}

copies 0 'step-00000002 copied to s3://runs/kept' "a checkpoint goes there" "$(step 2)" s3://runs/kept
is "its manifest last" "$(grep '^PUT' s3/log | tail -n 1)" "PUT kept/step-00000002/manifest.json fine"
copies 0 'has it already' "again: it is there" run s3://runs/kept --step 2
fresh_log
copies 0 'copied' "of a directory the newest goes" run s3://runs/kept
is "and nothing of the other is touched" "$(requests 'step-00000002')" 0
copies 0 'step 4 of s3://runs/kept copied to back' "the newest comes back" s3://runs/kept back
ok "with the same bytes" diff -r "$(step 4)" back/step-00000004
copies 0 'step 2 of .* copied' "the other by its step" s3://runs/kept back --step 2
is "which is not the latest" "$(cat back/latest)" step-00000004
copies 0 'has it already' "again: it is here" s3://runs/kept back --step 2
copies 5 '^belay: s3://runs/kept: no complete checkpoint of step 3 is there' "a step that is not there" s3://runs/kept back --step 3
is "both are good" "$(belay checkpoints verify back --all | grep -c ': good')" 2

job_file other
# shellcheck disable=SC2086
ok "another run" to out ranks 2 belay-train other.yaml $sizes --set train.steps=4 --set checkpoint.every=2 --set train.seed=12
copies 5 'another checkpoint of step 2 is there' "another of the same step is refused there" other s3://runs/kept --step 2
copies 5 'another checkpoint of the same step' "and here" s3://runs/kept other --step 2
cp -r "$(step 3)" broken && truncate -s 100 broken/rank-00001.safetensors
copies 5 'rank-00001.safetensors has 100 bytes' "a damaged one does not go" broken s3://runs/damaged
copies 5 '^belay: s3://runs/damaged: no complete checkpoint is there' "so none is there" s3://runs/damaged nowhere
ok "and none here" test ! -e nowhere/step-00000003
plan "$TAP_COUNT"
