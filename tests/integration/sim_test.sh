#!/usr/bin/env bash
# belay sim: a scenario from a file, the same bytes from the same seed, and sentences about what is wrong.
. "$(dirname "$0")/../lib.sh"
root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$SCRATCH" || exit 1
cp "$root"/examples/sim-small.yaml small.yaml

fails() { # fails WHAT RC REGEX COMMAND…
  local what=$1 rc=$2 regex=$3 got; shift 3
  "$@" >out 2>err; got=$?
  is "$what: exit code" "$got" "$rc"
  like "$what: sentence" "$(cat err)" "$regex"
}

belay sim small.yaml >one 2>err; is "it runs" "$?" 0
is "and says nothing on stderr" "$(cat err)" ""
like "the answer comes first" "$(head -n 2 one)" "Of the time that jobs ran, [0-9.]+% was new training \(ETTR\)\. .* did new training for [0-9.]+% \(goodput\)"
belay sim small.yaml >two
ok "same seed, same bytes" cmp one two
belay sim small.yaml --seed 2 >two
ok "another seed, other bytes" bash -c '! cmp -s one two'
belay sim small.yaml -o json >one.json; belay sim small.yaml -o json >two.json
ok "same seed, same JSON" cmp one.json two.json
ok "its keys" quiet jq -e '.ettr > 0.5 and .ettr < 1 and (.jobs|length) > 100 and (.series|length) > 10 and .failures.gpu.happened > 0 and
  (.wait.mean_s >= 0) and (.utilisation > 0.2) and .device_time.useful_s > 0' one.json
ok "the time of a job is accounted for, all but its first load" quiet jq -e '.jobs[0] | .attempts > 1 and .time.other_s > -20 and .time.other_s < 200' one.json
ok "nothing is lost without failures" bash -c "belay sim small.yaml -o json --set failures.rate=0/day |
  jq -e >/dev/null '.device_time.replay_s == 0 and .device_time.load_s == 0 and all(.jobs[]; .attempts <= 1)'"
is "fewer days" "$(belay sim small.yaml --days 1.5 -o json | jq .days)" 1.5

belay sim small.yaml --svg plot.svg >three; belay sim small.yaml >one
ok "a plot changes nothing else" cmp one three
like "the plot" "$(head -n 1 plot.svg)" "^<svg xmlns="
ok "many seeds" quiet bash -c "belay sim small.yaml --days 2 --seeds 3 -o json | jq -e '.seeds == 3 and (.rows|length) == 1 and .rows[0].ettr > 0.5'"
belay sim small.yaml --sweep --seeds 2 >sweep
like "a sweep names the best" "$(head -n 1 sweep)" "^Best of 4: checkpoint.every = (30m|1h|2h): "
like "and what theory says beside it" "$(tail -n 1 sweep)" "the best interval is .* by Young \(1974\) and .* by Daly \(2006\)"
is "it marks one" "$(grep -c '^best ' sweep)" 1
ettr() { belay sim small.yaml --set "checkpoint.every=$1" -o json | jq .ettr; }
ok "auto saves better than each ten minutes or each day" quiet jq -ne "$(ettr auto) > $(ettr 10m) and $(ettr auto) > $(ettr 1d)"
ok "a sweep of two" quiet bash -c "belay sim small.yaml --days 1 --sweep --set 'sweep={checkpoint.every: [1h, 2h], spares: [0, 1]}' -o json |
  jq -e '(.rows|length) == 4 and .rows[1].set == {\"checkpoint.every\": \"1h\", \"spares\": \"1\"} and .best < 4'"

belay sim small.yaml --days 1 --sweep --set 'sweep={spares: [1, 0]}' >sweep
is "what spares cost decides where the goodput is the same" "$(grep -c 'Best of 2: spares = 0: ' sweep) $(grep -c '^best  *0 ' sweep)" "1 1"
like "one seed proves nothing" "$(sed -n 2p sweep)" "With one seed luck cannot be told from merit"
like "and has no spread" "$(grep '^best' sweep)" "^best +0 +[0-9.]+% +[0-9.]+% +[0-9.]+% +- "
belay sim small.yaml --days 2 --seeds 3 --sweep --set 'sweep.checkpoint.every=[30m, 31m]' >sweep
like "settings that chance cannot tell apart are called the same" "$(sed -n 2p sweep)" "1 more has as much goodput, as far as 3 seeds can tell \(95 %\); those marked same have as much yield, too"
is "and marked" "$(grep -c '^same' sweep)" 1

belay sim - <small.yaml >two; belay sim small.yaml >one
ok "a scenario on stdin" cmp one two
is "many times" "$(belay sim - --days 1 --seeds 2 -o json <small.yaml | jq -c '[.seeds, (.rows|length)]')" "[2,1]"
fails "stdin with a mistake" 2 "^-:1:1: unknown field \"nam\"" belay sim - <<<"nam: x"
big=(--set jobs.0.spec.run.ranks=1024 --set jobs.0.spec.parallel.dp=128)
belay sim small.yaml --days 1 "${big[@]}" >never; is "a job that can never start: exit code" "$?" 1
is "it is in the first lines" "$(sed -n 2p never)" "Job large can never start in this cluster: needs 1024 slots, the cluster has 256."
is "and in the JSON" "$(belay sim small.yaml --days 1 "${big[@]}" -o json | jq -c '[.jobs[0].never_fits, .jobs[1].never_fits]')" "[true,false]"
belay sim small.yaml --days 1 --sweep "${big[@]}" --set 'sweep={spares: [0, 1]}' >never; is "in no row of a sweep: exit code" "$?" 1
like "it says so" "$(head -n 1 never)" "^With spares = 0, job large can never start in this cluster: needs 1024"
is "a name cannot disturb the terminal" "$(belay sim small.yaml --days 1 --set 'name="a\u001b[2J"' | head -n 1 | tr -d '[:print:]\n')" ""

fails "nothing to sweep" 2 "small.yaml has nothing to sweep: add" belay sim small.yaml --sweep --set 'sweep={}'
fails "a plot of many" 2 "svg draws one run" belay sim small.yaml --seeds 2 --svg x.svg
fails "a plot that cannot be written" 2 "nowhere/x.svg cannot be written" belay sim small.yaml --svg nowhere/x.svg
fails "a file that is not there" 2 "^missing.yaml:1:1: .*missing.yaml" belay sim missing.yaml
fails "a wrong field" 2 "^--set checkpoint.evry=1h: unknown field \"evry\" in checkpoint; did you mean \"every\"" belay sim small.yaml --set checkpoint.evry=1h
fails "no days at all" 2 "days must be a number of days from 0.001 to 3650" belay sim small.yaml --days 0
plan "$TAP_COUNT"
