#!/usr/bin/env bash
# checkpoint.every: auto: an early first save, then as its cost and the interruptions say, the same on all ranks, told with its reasons.
. "$(dirname "$0")/train_lib.sh"
plan 14
auto() { # NAME STEPS MTTF_S RANKS
  job_file "$1"
  sed -i "s/every: 5, keep: 3/every: auto, busy: wait, keep: 1000/; s/steps: 24/steps: $2/" "$1.yaml"
  BELAY_MTTF_S=$3 ranks "$4" belay-train "$1.yaml" >"$1.out" 2>&1
}
saved() { for c in "$1"/step-*; do echo $((10#${c##*-})); done | xargs; }

auto never 40 1e12 2
is "two ranks train" $? 0
is "interruptions that nobody expects: an early save, and the last" "$(saved never)" "10 40"
like "it says why" "$(grep '^saves every' never.out)" '^saves every [0-9]+ steps \(.*\): a save costs [0-9.]+m?s, (and it is safe only after .*, )?an interruption is expected each [0-9]+d.*, a step takes '

auto often 40 1e-6 2
is "two ranks train among interruptions" $? 0
like "interruptions all the time: the first after ten steps, the next as soon as can be" "$(saved often)" '^10 11 .*40$'
ok "every step once" complete often 40

# In a cluster: the controller says how often to expect an interruption, and describe shows what comes of it.
ok "a cluster" quiet belay up --nodes 1 --slots 1 || exit 1
job_file inside
sed -i 's/every: 5, keep: 3/every: auto, keep: 3/; s/steps: 24/steps: 100000/' inside.yaml
id=$(belay submit inside.yaml)
describes() { belay describe "$id" | grep -qE "$1"; }
ok "describe has the reasons" until_true 60 describes '^saves +every [0-9]+ steps .*an interruption is expected each 153d'
rank=$(belay describe "$id" -o json | json .attempts.0.ranks.0.pid)
like "one node is expected to last 154 days" "$(tr '\0' '\n' <"/proc/$rank/environ" | grep '^BELAY_MTTF_S=')" '^BELAY_MTTF_S=13292308$'

# Asked for, it saves at the end of the step that it is at.
before=$(job "$id" .step)
belay checkpoint "$id" --wait >asked
is "a checkpoint that is asked for" $? 0
step=$(sed -n 's/.*checkpoint of step \([0-9]*\) is durable/\1/p' asked)
ok "it is of a step ($step) that is not before the one known when it was asked for ($before)" [ "$step" -ge "$before" ]
quiet belay cancel "$id" --checkpoint
ok "cancelled after one more" until_true 60 job_is "$id" cancelled
ok "what it had done then is saved" [ "$(job "$id" .checkpoint.step)" -ge "$step" ]
is "and no request was left without an answer" "$(belay events --job "$id" | grep -c checkpoint_missed)" 0
