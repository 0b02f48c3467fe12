#!/usr/bin/env bash
# belayd is killed with SIGKILL 100 times at random moments while clients submit and retry with the same keys:
# every acknowledged job is there, none twice, and the database is whole. SEED=N repeats a run's moments.
. "$(dirname "$0")/daemon_lib.sh"
kills=${KILLS:-100} seed=${SEED:-$((RANDOM * 32768 + RANDOM))}
echo "# seed $seed (repeat with SEED=$seed), $kills kills"
RANDOM=$((seed % 32768))
acked=$dir/acked
start_belayd
"$programs/submit_storm" "$dir" 4 0 "$seed" "$acked" 8000 >"$dir/storm.out" 2>&1 &
storm=$!
died_alone=0
for _ in $(seq "$kills"); do
  sleep "0.$(printf %03d $((RANDOM % 400)))" # the random moment
  kill -0 "$belayd_pid" 2>/dev/null || died_alone=$((died_alone + 1))
  kill -KILL "$belayd_pid" 2>/dev/null
  wait "$belayd_pid" 2>/dev/null
  "$bin/belayd" --dir "$dir" 2>>"$dir/belayd.log" &
  belayd_pid=$!
done
until_true 20 answers
kill -TERM $storm
wait $storm
is 0 $? "every submit was acknowledged in the end ($(tail -1 "$dir/storm.out"))"
is 0 $died_alone "belayd ended only when it was killed"
is 0 "$(grep -c 'error:' "$dir/belayd.log")" "belayd had nothing to complain about"

# count SQL: on the live database, which readers may look into at any time.
count() { sqlite3 -cmd '.timeout 5000' -cmd '.mode list' "$dir/belayd.db" "$1"; }
is ok "$(count 'PRAGMA integrity_check')" "PRAGMA integrity_check"
n=$(wc -l <"$acked")
[ "$n" -gt $((kills * 2)) ] && ok "clients were at work ($n acknowledged)" || not_ok "clients were at work" "$n acknowledged"
with_acked() { sqlite3 -cmd '.timeout 5000' -cmd 'CREATE TEMP TABLE acked (line TEXT)' -cmd ".import $acked acked" "$dir/belayd.db" "$1"; }
is "$n" "$(with_acked 'SELECT count(*) FROM temp.acked')" "the list of acknowledged jobs was read"
is 0 "$(with_acked "SELECT count(*) FROM temp.acked WHERE line NOT IN (SELECT key || ' ' || id FROM jobs)")" "every acknowledged job is there under its id"
is 0 "$(count 'SELECT count(*) - count(DISTINCT key) FROM jobs')" "no key is there twice"
is 0 "$(count "SELECT count(*) - count(DISTINCT substr(yaml, 1, instr(yaml, char(10)))) FROM specs")" "no job file is there twice"
is 0 "$(count 'SELECT count(*) FROM jobs WHERE id NOT IN (SELECT job FROM specs)')" "every job has its job file"
is 0 "$(count "SELECT count(*) FROM jobs WHERE (SELECT count(*) FROM events WHERE job = jobs.id AND kind = 'submitted') <> 1")" "every job has exactly one submitted event"
is "$(count 'SELECT count(*) FROM jobs')" "$(rest GET /v1/jobs | grep -o '"id":' | wc -l)" "belayd itself knows the same jobs"
plan
