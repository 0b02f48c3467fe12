#!/usr/bin/env bash
# belayd is killed with SIGKILL 100 times at random moments while clients submit and retry with the same keys:
# every acknowledged job is there, none twice, and the database is whole. SEED=N repeats a run's moments.
. "$(dirname "$0")/daemon_lib.sh"
kills=${KILLS:-100} seed=${SEED:-$((RANDOM * 32768 + RANDOM))}
echo "# seed $seed (repeat with SEED=$seed), $kills kills"
RANDOM=$((seed % 32768))
plan 12
acked=$dir/acked
start_belayd
"$BELAY_TEST_PROGRAMS/submit_storm" "$dir" 4 0 "$seed" "$acked" 8000 >"$dir/storm.out" 2>&1 &
storm=$!
died_alone=0
for _ in $(seq "$kills"); do
  sleep "0.$(printf %03d $((RANDOM % 400)))" # the random moment
  kill -0 "$belayd_pid" 2>/dev/null || died_alone=$((died_alone + 1))
  kill -KILL "$belayd_pid" 2>/dev/null
  wait "$belayd_pid" 2>/dev/null
  belayd --dir "$dir" 2>>"$dir/belayd.log" &
  belayd_pid=$!
done
until_true 20 answers
kill -TERM $storm
wait $storm; rc=$?
diag "$(tail -1 "$dir/storm.out")"
is "every submit was acknowledged in the end" $rc 0
is "belayd ended only when it was killed" $died_alone 0
is "belayd had nothing to complain about" "$(grep -c 'error:' "$dir/belayd.log")" 0

# count SQL: on the live database, which readers may look into at any time.
count() { sqlite3 -cmd '.timeout 5000' -cmd '.mode list' "$dir/belayd.db" "$1"; }
is "PRAGMA integrity_check" "$(count 'PRAGMA integrity_check')" ok
n=$(wc -l <"$acked")
ok "clients were at work ($n acknowledged)" test "$n" -gt $((kills * 2))
with_acked() { sqlite3 -cmd '.timeout 5000' -cmd 'CREATE TEMP TABLE acked (line TEXT)' -cmd ".import '$acked' acked" "$dir/belayd.db" "$1"; }
is "the list of acknowledged jobs was read" "$(with_acked 'SELECT count(*) FROM temp.acked')" "$n"
is "every acknowledged job is there under its id" "$(with_acked "SELECT count(*) FROM temp.acked WHERE line NOT IN (SELECT key || ' ' || id FROM jobs)")" 0
is "no key is there twice" "$(count 'SELECT count(*) - count(DISTINCT key) FROM jobs')" 0
is "no job file is there twice" "$(count "SELECT count(*) - count(DISTINCT substr(yaml, 1, instr(yaml, char(10)))) FROM specs")" 0
is "every job has its job file" "$(count 'SELECT count(*) FROM jobs WHERE id NOT IN (SELECT job FROM specs)')" 0
is "every job has exactly one submitted event" "$(count "SELECT count(*) FROM jobs WHERE (SELECT count(*) FROM events WHERE job = jobs.id AND kind = 'submitted') <> 1")" 0
is "belayd itself knows the same jobs" "$(rest GET /v1/jobs | grep -o '"id":' | wc -l)" "$(count 'SELECT count(*) FROM jobs')"
