#!/usr/bin/env bash
# Checkpoints on demand, and what programs tell of theirs: belay notify, belay checkpoint, and the stops that wait for one.
. "$(dirname "$0")/../lib.sh"
plan 36
programs=$(cd "$(dirname "$0")/../programs" && pwd)
cd "$SCRATCH" || exit 1

# --- belay notify where it cannot do anything
(unset BELAY_NOTIFY_SOCKET; belay notify STEP=1) 2>err
is "notify outside a job is wrong usage" $? 2
like "notify outside a job says so" "$(cat err)" "BELAY_NOTIFY_SOCKET is not set: this is for programs inside a job"
refuses() { # CODE WORDS KEY=VALUE...
  local code=$1 words=$2; shift 2
  BELAY_NOTIFY_SOCKET=$SCRATCH/gone RANK=0 belay notify "$@" 2>err
  is "notify ${1:0:8}: exit code $code" $? "$code"
  like "notify ${1:0:8}: $words" "$(cat err)" "$words"
}
refuses 2 "is not KEY=VALUE" STEP
refuses 2 "must be capital letters" step=1
refuses 2 "more than one line" $'STATUS=a\nSTEP=4'
refuses 2 "bytes are too many: at most 4096" "STATUS=$(printf 'x%.0s' {1..5000})"
refuses 4 "No such file" CHECKPOINT_DURABLE=1 PATH=not-there
refuses 3 "has the job ended" STEP=1
(unset RANK; BELAY_NOTIFY_SOCKET=$SCRATCH/gone belay notify STEP=1) 2>err
like "notify without a rank asks for one" "$(cat err)" "RANK is not set"

# --- a job that saves when asked
ok "a cluster" quiet belay up --nodes 2 --slots 2 || exit 1
start() { # NAME FOLDER
  mkdir -p "$2"
  printf 'name: %s\nrun:\n  ranks: 1\n  command: [%s, "100000"]\nresources: {device: cpu, cpus: 1, memory: 64MiB}\nlimits: {grace: 10s}\n' \
    "$1" "$programs/saver.sh" >"$2/job.yaml"
  (cd "$2" && belay submit job.yaml)
}
says() { belay events --job "$1" 2>/dev/null | grep -qE -- "$2"; }
id=$(start one one)
ok "it runs" until_true 20 job_step_at_least "$id" 3
out=$(belay checkpoint "$id" --wait)
is "belay checkpoint --wait ends with 0" $? 0
step=$(sed -n 's/.*checkpoint of step \([0-9]*\) is durable/\1/p' <<<"$out")
ok "it says the step ($step)" test -e "one/saved-$step"
is "the step is the job's newest checkpoint" "$(job "$id" .checkpoint.step)" "$step"
like "belay checkpoints has how long it took, and the path" "$(belay checkpoints "$id")" "$step .* 4ms +1\.2s +1 +$SCRATCH/one/saved-$step"

echo "no room at all" >one/BROKEN
belay checkpoint "$id" --wait 2>err
is "a save that fails: exit code 1" $? 1
like "the program's reason is told" "$(cat err)" "job $id made no checkpoint: no room at all"
belay checkpoint "$id" --wait 2>/dev/null
is "the same reason twice is one event" "$(belay events --job "$id" | grep -c "cannot be saved: no room at all")" 1
like "describe counts them" "$(belay describe "$id")" "not saved +storage: 2 failed, the last at step [0-9]+: no room at all"
rm one/BROKEN
quiet belay checkpoint "$id" --wait
ok "the next that succeeds says that it works again" says "$id" "it works again, after 2 that failed"

# --- memory: only the newest, and no events
before=$(belay events --job "$id" | wc -l)
rank=$(belay describe "$id" -o json | json .attempts.0.ranks.0.pid)
socket=$(tr '\0' '\n' <"/proc/$rank/environ" | sed -n 's/^BELAY_NOTIFY_SOCKET=//p')
for n in 500 501 502; do BELAY_NOTIFY_SOCKET=$socket RANK=0 belay notify CHECKPOINT_DURABLE=$n CHECKPOINT_TIER=memory; done
in_memory() { [ "$(job "$id" .checkpoint_memory.step)" = "$1" ]; }
ok "copies in memory are seen" until_true 10 in_memory 502
is "they are no events" "$(belay events --job "$id" | wc -l)" "$before"
like "describe shows the newest" "$(belay describe "$id")" "in memory +step 502"

# --- a planned stop
attempt_is() { [ "$(job "$1" .attempt)" = "$2" ]; }
belay requeue "$id" >/dev/null
ok "a requeue asks first" says "$id" "requeued by .*: job $id is asked for a checkpoint"
ok "and places it again" until_true 20 attempt_is "$id" 2
steps_again() { [ "$(belay describe "$id" -o json | json .attempts.1.to_step)" != null ]; }
ok "where it goes on" until_true 20 steps_again

quiet belay cancel "$id" --checkpoint
ok "cancel --checkpoint cancels it" until_true 20 job_is "$id" cancelled
ok "after a checkpoint" says "$id" "cancelled by .*: job $id is asked for a checkpoint"

# --- what saves none
printf 'name: deaf\nrun: {ranks: 1, command: [sleep, "1000"]}\nresources: {device: cpu, cpus: 1, memory: 64MiB}\n' >deaf.yaml
id=$(belay submit deaf.yaml)
until_true 20 job_is "$id" running
belay checkpoint "$id" 2>err
is "a job that saves none is refused" $? 5
like "with what to do" "$(cat err)" "job $id saves no checkpoint when asked.*belay notify CHECKPOINT_ON=SIGUSR1"
quiet belay cancel "$id"
