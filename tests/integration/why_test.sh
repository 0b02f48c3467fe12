#!/usr/bin/env bash
# belay why: one plain sentence, then the facts; what scripts read of it; and a repair that moves only the ranks of a lost node.
. "$(dirname "$0")/../lib.sh"
plan 20
cd "$SCRATCH" || exit 1

code() { "$@" >out 2>err; echo $?; }
sleeper() { # NAME RANKS MORE
  printf 'name: %s\nrun: {command: [sleep, "600"], ranks: %s}\nresources: {device: cpu}\nlimits: {grace: 1s%s}\n%s' "$1" "$2" "${3:-}" "${4:-}"
}

ok "three nodes with two slots" quiet belay up --nodes 3 --slots 2 || exit 1
sleeper hog 5 ', time: 1h' >hog.yaml
sleeper big 6 >big.yaml
sleeper tiny 1 >tiny.yaml
sleeper huge 7 >huge.yaml
hog=$(belay submit hog.yaml)
ok "the first job runs" until_true 10 job_is "$hog" running
big=$(belay submit big.yaml) tiny=$(belay submit tiny.yaml) huge=$(belay submit huge.yaml)
ok "the large one waits" until_true 5 job_is "$big" pending
belay why big >out
is "a plain sentence first" "$(head -1 out)" "Job $big (big) waits for 6 free CPU slots: other jobs hold them."
like "what it needs" "$(cat out)" "needs +6 ranks"
like "what is free" "$(cat out)" "free +1 of 6 slots"
like "who blocks, until when" "$(cat out)" "blocked by +job $hog \(hog, .*\) holds 5 slots, until "
like "what would change it" "$(cat out)" "to change +with 1 rank it would start now"
like "a job that would delay it" "$(belay why tiny)" "^Job $tiny \(tiny\) is pending: would fit, but delay job $big"
like "a job that can never run" "$(belay why huge)" "^Job $huge \(huge\) never fits: needs 7 "
like "a job that runs" "$(belay why hog)" "^Job $hog \(hog\) is running"
is "JSON: the verdict" "$(belay why big -o json | json .verdict)" capacity
is "JSON: who blocks" "$(belay why big -o json | json .blockers.0.job)" "$hog"
is "no such job" "$(code belay why nobody)" 4
for j in $big $tiny $huge $hog; do belay cancel "$j" >/dev/null; done
ok "all gone" until_true 10 job_ended "$hog"

# --- a lost node: its ranks go to the spare, the others stay
sleeper kept 4 '' 'placement: {spares: 1}
' >kept.yaml
kept=$(belay submit kept.yaml)
ok "a job with a spare runs" until_true 10 job_is "$kept" running
nodes() { belay status "$1" -o json | perl -MJSON::PP -e 'local $/; print join " ", map { "$_->{node}.$_->{slot}" } @{JSON::PP->new->decode(<STDIN>)->{placement}}'; }
was=$(nodes "$kept") spare=$(job "$kept" .spares.0)
like "the spare is another node" "$spare" "^node[0-9]$"
lost=$(cut -d' ' -f4 <<<"$was"); lost=${lost%.*}
ok "it drains" quiet belay drain "$lost" --reason disk --now
moved() { [ "$(job "$kept" .attempt)" = 2 ] && job_is "$kept" running; }
ok "the job runs again" until_true 20 moved
now=$(nodes "$kept")
is "only the ranks of the drained node have moved" "$now" "$(sed "s/$lost\./$spare./g" <<<"$was")"
