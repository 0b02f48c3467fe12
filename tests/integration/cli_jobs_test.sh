#!/usr/bin/env bash
# The command line with jobs: what it prints, what scripts read, and its exit codes.
. "$(dirname "$0")/../lib.sh"
plan 62
cd "$SCRATCH" || exit 1

code() { "$@" >out 2>err; echo $?; }
spec() { # NAME RANKS SHELL-TEXT
  printf 'name: %s\nrun:\n  command: [/bin/bash, -c, %s]\n  ranks: %s\n' "$1" "'$3'" "$2"
  printf 'resources: {device: cpu, memory: 16MiB}\nrestart: {max: 1, backoff: 50ms}\nlimits: {grace: 1s}\n'
}

ok "two nodes with two slots" quiet belay up --nodes 2 --slots 2 --racks 2 || exit 1
like "status before the first job" "$(belay status)" "No jobs yet"
is "an empty list in JSON" "$(belay status -o json | json .length)" 0

# --- run
spec hello 4 'echo "hello from $RANK of $WORLD_SIZE"; echo oops >&2' >hello.yaml
is "run exits 0" "$(code belay run hello.yaml)" 0
is "rank 0's output, stdout and stderr" "$(cat out)" "hello from 0 of 4
oops"
is "and not a word more" "$(cat err)" ""
is "every rank's with --all-ranks" "$(belay run hello.yaml --all-ranks | grep hello | sort | tr '\n' ',')" \
  "[0] hello from 0 of 4,[1] hello from 1 of 4,[2] hello from 2 of 4,[3] hello from 3 of 4,"
spec many 1 'for i in $(seq 1 20000); do echo "line $i"; done' >many.yaml
is "no line of a long output is lost" "$(belay run many.yaml | md5sum)" "$(seq -f 'line %g' 1 20000 | md5sum)"
spec fails 2 'echo rank $RANK says no; exit $((RANK * 3))' >fails.yaml
is "run exits 1 with a job that failed" "$(code belay run fails.yaml --set restart.max=0)" 1
like "and says why" "$(cat err)" "job [0-9]+ failed: .*rank 1 .*3"
like "and shows the last lines of the rank that failed" "$(cat err)" "^\[1\] rank 1 says no"
like "a restart is told" "$(belay run fails.yaml 2>&1)" "is restarting"

# --- submit, status, describe
id=$(belay submit hello.yaml)
is "submit prints the id alone" "$id" "$(printf '%d' "$id")"
ok "it completes" until_true 20 job_is "$id" completed
is "the keys that scripts rely on" \
  "$(belay status "$id" -o json | perl -MJSON::PP -e 'local $/; my $j = decode_json(<STDIN>); print join " ", grep { exists $j->{$_} } qw(id name user state reason attempt restarts step steps loss tokens_per_second mfu checkpoint ettr submitted started ended placement)')" \
  "id name user state reason attempt restarts step steps loss tokens_per_second mfu checkpoint ettr submitted started ended placement"
is "placement" "$(belay status "$id" -o json | json .placement.2)" '{"cp":0,"dp":2,"node":"node1","pp":0,"rank":2,"slot":0,"tp":0}'
like "the table's columns" "$(belay status)" "^JOB +NAME +USER +STATE +RANKS +NODES +STEP +LOSS +RESTARTS +UP +INFO$"
like "and a row" "$(belay status)" "^ *$id +hello +[^ ]+ +completed +4 +2 "
is "no escape sequence without a terminal" "$(belay status | grep -c $'\033')" 0
like "one job as a block" "$(belay status "$id")" "^state +completed"
like "wide" "$(belay status -o wide)" "TOKENS/S"
belay describe "$id" >described
like "describe: attempts" "$(cat described)" "^ +1 +ended +completed +node0,node1"
like "describe: placement" "$(cat described)" "^ +3 +node1 +1 +0 +0 +0 +3 +[0-9]+ +exited"
like "describe: events" "$(cat described)" "job $id \(hello\) is completed"
is "describe in JSON" "$(belay describe "$id" -o json | json .attempts.0.ranks.3.node)" node1
like "describe a node" "$(belay describe node1)" "^place +rack1, pod0"

# --- logs and events
is "logs of one rank" "$(belay logs "$id" --rank 2 | head -1)" "hello from 2 of 4"
is "logs of all" "$(belay logs "$id" --all | grep -c '^\[[0-3]\] ')" 8
is "the last line" "$(belay logs "$id" --tail 1)" oops
is "no such rank" "$(code belay logs "$id" --rank 4)" 4
is "no such attempt" "$(code belay logs "$id" --attempt 2)" 4
is "events of a job" "$(belay events --job "$id" -o json | json .0.kind)" submitted
is "the newest one" "$(belay events --job "$id" --tail 1 -o json | json .0.kind)" completed

narrow() { script -qec "stty cols 40; $*" /dev/null </dev/null; } # on a terminal of 40 columns
like "a narrow terminal cuts no event" "$(narrow belay events --job "$id" --tail 1)" "ranks? exited with 0"
like "but a listing" "$(narrow belay nodes)" "…"

# --- a job that waits for us
spec gate 1 'echo begun; until [ -e go ]; do sleep 0.05; done; echo done' >gate.yaml
belay events -f >events.out 2>&1 & follower=$!
id=$(belay submit gate.yaml)
ok "a job by its name" until_true 20 job_is gate running
belay logs -f gate >log.out 2>&1 & logger=$!
belay status gate --watch >watch.out 2>&1 & watcher=$!
ok "logs -f shows a line while the job runs" until_true 10 grep -q begun log.out
ok "watch shows it running" until_true 10 grep -q running watch.out
: >go
ok "logs -f ends with the job" wait "$logger"
is "and has it all" "$(cat log.out)" "begun
done"
ok "status --watch ends with it" wait "$watcher"
like "and saw it complete" "$(cat watch.out)" "completed"
ok "events -f shows it" until_true 10 grep -q "job $id (gate) is completed" events.out
kill "$follower"

# --- two of one name, hold, release, requeue, cancel
rm -f go
a=$(belay submit gate.yaml) b=$(belay submit gate.yaml)
is "a name that two live jobs have" "$(code belay cancel gate)" 2
ok "both run" until_true 20 job_is "$b" running
ok "requeue" quiet belay requeue "$b"
attempt_is() { [ "$(job "$1" .attempt)" = "$2" ]; }
ok "brings a new attempt" until_true 20 attempt_is "$b" 2
ok "hold" quiet belay hold "$b"
ok "is held" until_true 20 job_is "$b" held
ok "release" quiet belay release "$b"
ok "runs again" until_true 20 job_is "$b" running
is "cancel two, one of them not there" "$(code belay cancel "$a" 999 "$b")" 4
ok "both are cancelled" eval 'until_true 20 job_is "$a" cancelled && until_true 20 job_is "$b" cancelled'
is "cancel what is over" "$(code belay cancel "$a")" 5
is "no such job" "$(code belay status 999)" 4
is "no such name" "$(code belay logs nosuch)" 4

# --- Ctrl-C in run asks for cancel (a shell's background job ignores SIGINT: give it back)
perl -e '$SIG{INT} = "DEFAULT"; exec @ARGV' belay run gate.yaml >run.out 2>run.err & runner=$!
ok "run shows its output" until_true 20 grep -q begun run.out
kill -INT "$runner"
wait "$runner"
is "Ctrl-C cancels the job and run exits 1" "$? $(belay status gate -o json | json .state)" "1 cancelled"

# --- drain
is "drain a node that is not there" "$(code belay drain node9 --reason x)" 4
ok "drain and wait" quiet belay drain node0 --reason "fan is loud" --wait
is "drained, with its reason" "$(belay nodes -o json | json .0.state) $(belay nodes -o json | json .0.reason | grep -c 'fan is loud')" "drained 1"
ok "undrain" eval 'belay undrain node0 >/dev/null && until_true 5 test "$(belay nodes -o json | json .0.state)" = up'
