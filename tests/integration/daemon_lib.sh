# Sourced by daemon_*_test.sh: TAP lines, a belayd alone in a fresh folder, and an end that leaves nothing behind.
set -u
bin=${BELAY_BIN:-build/bin} programs=${BELAY_TEST_PROGRAMS:-build/tests/programs}
tap_n=0 tap_failed=0
ok() { tap_n=$((tap_n + 1)); echo "ok $tap_n - $1"; }
not_ok() { tap_n=$((tap_n + 1)); tap_failed=1; echo "not ok $tap_n - $1"; shift; printf '# %s\n' "$@"; }
# is WANT GOT NAME
is() { if [ "$1" = "$2" ]; then ok "$3"; else not_ok "$3" "want: $1" "got:  $2"; fi; }
# like PATTERN TEXT NAME: an extended regular expression
like() { if grep -qE -- "$1" <<<"$2"; then ok "$3"; else not_ok "$3" "want: $1" "got:  $2"; fi; }
plan() { echo "1..$tap_n"; exit $tap_failed; }

dir=$(mktemp -d /tmp/belay-daemon-XXXXXX)
belayd_pid=
end() {
  [ -n "$belayd_pid" ] && kill -KILL "$belayd_pid" 2>/dev/null && wait "$belayd_pid" 2>/dev/null
  rm -rf "$dir"
}
trap end EXIT
trap 'exit 143' TERM INT

# until_true SECONDS COMMAND...: waits for a condition.
until_true() {
  local end=$((SECONDS + $1)); shift
  until "$@" 2>/dev/null; do [ $SECONDS -ge "$end" ] && return 1; sleep 0.01; done
}
rest() { "$programs/rest" "$dir" "$@"; }
answers() { rest GET /v1/cluster 2>/dev/null | grep -q '^200 '; }
start_belayd() {
  "$bin/belayd" --dir "$dir" "$@" 2>>"$dir/belayd.log" &
  belayd_pid=$!
  until_true 20 eval 'answers || ! kill -0 "$belayd_pid"'
  answers || { not_ok "belayd starts" "$(tail -5 "$dir/belayd.log")"; plan; }
}
# stop_belayd SIGNAL: sets stopped to its exit status.
stop_belayd() {
  kill "-$1" "$belayd_pid"
  wait "$belayd_pid" 2>/dev/null
  stopped=$? belayd_pid=
}
