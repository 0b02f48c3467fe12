#!/usr/bin/env bash
# What happens while a checkpoint is being written: training goes on, and one save never mixes with another. A gate in the writing thread
# (tests/programs/faultfs.c) holds the save for as long as the test wants.
. "$(dirname "$0")/train_lib.sh"
plan 27

# slow NAME N GATE SETS...: NAME.yaml on N ranks in the background ($pid), where the first shard of rank 0 waits at GATE
slow() {
  local name=$1 n=$2 gate=$3; shift 3
  faults "$name" "write:/rank-00000.safetensors:1:gate=$PWD/$gate"
  FAULTFS+=("BELAY_FAULTFS_LOG=$PWD/$name.calls")
  if [ "$n" -eq 1 ]; then env "${FAULTFS[@]}" belay-train "$name.yaml" "$@" >"$name.out" 2>"$name.err" &
  else ranks "$n" env "${FAULTFS[@]}" belay-train "$name.yaml" "$@" >"$name.out" 2>"$name.err" & fi
  pid=$!
}
# Each checkpoint is made as a whole before the next is begun: the hidden folders come one after the other.
never_mixed() { [ "$(hidden "$1" | uniq | wc -l)" -eq "$(hidden "$1" | sort -u | wc -l)" ]; }
hidden() { grep -oE '\.step-[0-9]+\.[0-9]+\.[0-9]+' "$1.calls"; }
# rows_before NAME STEP: how many rows were written before the checkpoint of STEP was there; the first call wrote the header
rows_before() { sed -n "\,^rename .*/\.step-0*$2\..* .*/step-0*$2\$,q; /^write .*metrics.csv\$/p" "$1.calls" | wc -l; }

for n in 1 2; do
  # --- skip
  job_file skip$n
  slow skip$n "$n" skip$n.gate --set checkpoint.busy=skip
  ok "skip, $n rank(s): all steps are made while the first save is held" until_true 30 rows_at_least skip$n 24
  touch skip$n.gate
  wait $pid
  is "skip: it ends well" "$? $(steps_of skip$n)" "0 5 24 "
  is "skip: what is left out is told" "$(grep -o 'step [0-9]* is not saved: the checkpoint of step [0-9]* is still being written' skip$n.err | tr '\n' ';')" \
    "$(for s in 10 15 20; do printf 'step %d is not saved: the checkpoint of step 5 is still being written;' $s; done)"
  ok "skip: no save mixes with another" never_mixed skip$n

  # --- wait
  job_file wait$n
  slow wait$n "$n" wait$n.gate --set checkpoint.busy=wait
  ok "wait, $n rank(s): a save is held" held wait$n.gate
  until_true 30 rows_at_least wait$n 10
  touch wait$n.gate
  wait $pid
  is "wait: nothing is left out" "$? $(steps_of wait$n)$(grep -c 'not saved' wait$n.err)" "0 15 20 24 0"
  is "wait: no step is made that would have to wait" "$(rows_before wait$n 5)" 10
  ok "wait: no save mixes with another" never_mixed wait$n
done
is "a run that waited has the losses of one that skipped" "$(losses wait1)" "$(losses skip1)"

# --- SIGUSR1 while one is under way: what is asked for is never left out
job_file asked
slow asked 1 asked.gate --set train.steps=100000 --set checkpoint.every=100000
until_true 30 rows_at_least asked 5
kill -USR1 $pid
ok "SIGUSR1 starts a save" held asked.gate
before=$(rows asked)
until_true 30 rows_at_least asked $((before + 3))
kill -USR1 $pid
touch asked.gate
two_there() { [ "$(steps_of asked | wc -w)" -eq 2 ]; }
ok "SIGUSR1 while it is under way saves afterwards" until_true 30 two_there
kill -TERM $pid
wait $pid
is "and it can be stopped" "$?$(grep -c 'not saved' asked.err)" 00

# --- SIGTERM while one is under way
job_file term
slow term 1 term.gate --set train.steps=100000 --set checkpoint.busy=wait
ok "a save is held" held term.gate
kill -TERM $pid
touch term.gate
wait $pid
is "SIGTERM: it ends with 0" $? 0
last=$(rows term)
# It may have come to the next that is due before it hears of the signal.
is "SIGTERM: the one under way is durable, and the last one" "$(grep -o '^checkpoint step [0-9]*' term.out | grep -o '[0-9]*$' | tr '\n' ' ')" \
  "$(seq 5 5 $((last - 1)) | tr '\n' ' ')$last "
is "SIGTERM: the last one is of the last step" "$(cat term/latest)" "$(printf 'step-%08d' "$last")"

# --- a rollback while one is under way goes back to that one
job_file back0
ok "rollback" to out env BELAY_FAULT=nan@8 belay-train back0.yaml --set train.guard.action=rollback
job_file back
export BELAY_FAULT=nan@8
slow back 1 back.gate --set train.guard.action=rollback
unset BELAY_FAULT
held back.gate
until_true 30 rows_at_least back 7
touch back.gate
wait $pid
is "rollback while one is under way: it goes back to that one" "$?$(grep -o 'going back from step 7 to the checkpoint of step 5' back.out)" "0going back from step 7 to the checkpoint of step 5"
is "rollback while one is under way: the same losses" "$(losses back)" "$(losses back0)"
