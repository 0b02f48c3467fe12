#!/usr/bin/env bash
# What tests/run-one.sh makes of a test: cmocka's skipped tests pass, and in a sanitizer build a finding in any process below a test fails that
# test, though nobody reads the process's output or exit code.
. "$(dirname "$0")/../lib.sh"
: "${BELAY_TEST_PROGRAMS:?set BELAY_TEST_PROGRAMS to the folder of the built test programs (make check does)}"
run_one() { bash "$(dirname "$0")/../run-one.sh" "$BELAY_TEST_PROGRAMS/misbehave" "$1" 2>&1; }

fails_for() { # fails_for FINDING REGEX: the test fails and says what was found
  local out rc
  out=$(run_one "$1"); rc=$?
  ok "$1 in a process of a test fails it" test "$rc" -ne 0
  like "and the report is shown" "$out" "$2"
}

case "${BELAY_SANITIZER:-}" in
  address) plan 6 ;;
  undefined) plan 4 ;;
  *) plan 2 ;;
esac
ok "a test without a finding passes" run_one nothing
is "a test that cmocka skipped is no failure" "$(run_one skip)" "ok 1 # SKIP a_test"
case "${BELAY_SANITIZER:-}" in
  address)
    fails_for leak 'LeakSanitizer: detected memory leaks'
    fails_for overflow 'heap-buffer-overflow' ;;
  undefined) fails_for shift 'shift exponent 40 is too large' ;;
esac
