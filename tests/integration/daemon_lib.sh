# Shared by daemon_*_test.sh: tests/lib.sh, and a belayd alone in a fresh folder $dir, which ends with the test.
. "$(dirname "$0")/../lib.sh"
: "${BELAY_TEST_PROGRAMS:?set BELAY_TEST_PROGRAMS to the folder of the built test programs (make check does)}"
dir=$SCRATCH/belayd belayd_pid=
mkdir "$dir"

end_belayd() {
  [ -n "$belayd_pid" ] && kill -KILL "$belayd_pid" 2>/dev/null && wait "$belayd_pid" 2>/dev/null
  [ "$TAP_FAILED" -eq 0 ] || diag "$(tail -n 20 "$dir/belayd.log")" >&2
  finish
}
trap end_belayd EXIT

rest() { "$BELAY_TEST_PROGRAMS/rest" "$dir" "$@"; }
answers() { rest GET /v1/cluster 2>/dev/null | grep -q '^200 '; }
sockets() { find "/proc/$belayd_pid/fd" -lname "socket:*" 2>/dev/null | wc -l; } # some close while it looks
sockets_at_least() { [ "$(sockets)" -ge "$1" ]; } # connections are in
belayd_settled() { answers || ! kill -0 "$belayd_pid" 2>/dev/null; } # it answers, or has given up
start_belayd() { # start_belayd [FLAGS]
  belayd --dir "$dir" "$@" 2>>"$dir/belayd.log" &
  belayd_pid=$!
  until_true 20 belayd_settled
  answers || { ok "belayd starts" false; exit 1; }
}
stop_belayd() { # stop_belayd SIGNAL: sets stopped to its exit status
  kill "-$1" "$belayd_pid"
  wait "$belayd_pid" 2>/dev/null
  stopped=$? belayd_pid=
}
