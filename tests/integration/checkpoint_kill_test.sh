#!/usr/bin/env bash
# A run that is killed at any call that changes its checkpoint directory goes on from the newest complete checkpoint, to the same numbers. Here a
# sample of the calls, drawn anew each time; `make check-faults` (FAULTS=all) takes every one.
[ -w /dev/shm ] && export TMPDIR=/dev/shm # hundreds of runs, of which each fsync would wait for a disk
export OMPI_MCA_odls_base_sigkill_timeout=0 # a rank whose neighbour is dead waits for it and hears no SIGTERM
. "$(dirname "$0")/train_lib.sh"
plan 8

# small_job NAME: three saves of six steps, the last of which purges
small_job() {
  job_file "$1"
  sed -i 's/layers: 2, hidden: 32, heads: 4, context: 32/layers: 1, hidden: 16, heads: 2, context: 16/; s/global: 16, micro: 4/global: 4, micro: 2/
          s/steps: 24/steps: 6/; s/every: 5, keep: 3/every: 2, keep: 2, busy: wait/' "$1.yaml"
}

# trained N NAME RULES: NAME.yaml on N ranks, whose calls meet RULES, with its output in NAME.out. Of two ranks only $rank is struck.
rank=0
trained() {
  local n=$1 name=$2
  faults "$name" "$3"
  if [ "$n" -eq 1 ]; then env "${FAULTFS[@]}" belay-train "$name.yaml"; else
    ranks "$n" env "${FAULTFS[@]}" BELAY_FAULTFS_RANK=$rank belay-train "$name.yaml"
  fi >"$name.out" 2>&1
}

newest() { ls -d "$1"/step-* 2>/dev/null | sed 's/.*step-0*//' | sort -n | tail -1; }
durable() { sed -n 's/^checkpoint step \([0-9]*\):.*/\1/p' "$1.out" | tail -1; }
resumed() { sed -n 's/^resuming from step \([0-9]*\),.*/\1/p' "$1.out"; }

# goes_on N NAME: what is there after a kill is whole, and a run from it ends like one never killed
goes_on() {
  local n=$1 name=$2 told there
  told=$(durable "$name") there=$(newest "$name")
  [ "${there:-0}" -ge "${told:-0}" ] || { diag "step $told was told to be durable, and ${there:-none} is there"; return 1; }
  trained "$n" "$name" "" || { diag "it does not go on:" "$(cat "$name.out")"; return 1; }
  [ "$(resumed "$name")" = "$there" ] || { diag "it went on from $(resumed "$name") though $there is there:" "$(cat "$name.out")"; return 1; }
  ! grep -E 'skipping|stays|out of date' "$name.out" | sed 's/^/# /' | grep . || return 1
  same_end "$n" "$name"
}

# same_end N NAME: the rows and the shelf of the straight run, and nothing else. A run that was killed right before it purged, and had nothing left to
# do when it came back, has one checkpoint more.
same_end() {
  local left
  left=$(ls -A "$2" | tr '\n' ' ')
  if grep -q 'nothing is left to do' "$2.out"; then left=${left/step-00000002 /}; fi
  [ "$left" = "claim claim.lock latest metrics.csv step-00000004 step-00000006 " ] || { diag "left: $left"; return 1; }
  [ "$(cat "$2/latest")" = step-00000006 ] || { diag "latest: $(cat "$2/latest")"; return 1; }
  complete "$2" 6 && [ "$(losses "$2")" = "$(losses straight$1)" ] || { diag "other rows:" "$(losses "$2")"; return 1; }
}

# killed_at N HOW CALL NAME: killed at one call, the run after it at another, and on to the end. 2: there was no such call.
killed_at() {
  local n=$1 how=$2 call=$3 name=$4 again=$((RANDOM % 60 + 1))
  small_job "$name"
  trained "$n" "$name" "*:*:$call:$how"
  case $? in 0) return 2 ;; 137) ;; *) diag "$how at call $call:" "$(cat "$name.out")"; return 1 ;; esac
  trained "$n" "$name" "*:*:$again:kill"
  goes_on "$n" "$name" || { diag "$how at call $call, then killed at $again, $n rank(s)"; return 1; }
  rm -rf "$name" "$name".*
}

# How many calls rank $rank of N makes when nothing happens.
calls_of() {
  small_job count
  rm -f count.calls
  BELAY_FAULTFS_LOG=$PWD/count.calls trained "$1" count ""
  rm -rf count
  wc -l <count.calls
}

# each_of N HOW COUNT: kills at COUNT calls, or at all of them
each_of() {
  local n=$1 how=$2 count=$3 calls call tried=0 failed=0
  calls=$(calls_of "$n")
  for call in $(if [ "${FAULTS:-}" = all ]; then seq 1 "$calls"; else shuf -n "$count" -i "1-$calls" --random-source=seed; fi); do
    killed_at "$n" "$how" "$call" "k$call"
    case $? in 0) tried=$((tried + 1)) ;; 2) ;; *) failed=$((failed + 1)) ;; esac
  done
  diag "$tried of $calls calls, $n rank(s), $how"
  [ "$failed" -eq 0 ] && [ "$tried" -gt 0 ]
}

SEED=${SEED:-$RANDOM}
diag "SEED=$SEED"
RANDOM=$SEED
for ((i = 0; i < 4000; i++)); do printf '%d ' $RANDOM; done >seed
small_job straight1; small_job straight2
ok "one rank, never interrupted" trained 1 straight1 ""
ok "two ranks, never interrupted" trained 2 straight2 ""
ok "one rank killed before a call" each_of 1 kill 7
ok "one rank killed in the middle of a write" each_of 1 half 4
ok "a machine loses its power at a call" each_of 1 power 5
ok "rank 0 of two killed" each_of 2 kill 2
rank=1
ok "rank 1 of two killed" each_of 2 kill 1

# What the faults are, they must be able to show: a fsync that is not made is noticed where the power fails.
lost() {
  small_job lost
  trained 1 lost "rename:/step-00000002:1:power"
  [ "$(newest lost)" = "" ]
}
ok "what is not synced is lost with the power" lost
