#!/usr/bin/env bash
# Runs one test for prove: a cmocka program or a shell script, with a time limit that also ends what it left behind.
limit=${BELAY_TEST_LIMIT:-300}
case "$1" in
  *.sh) exec timeout --kill-after=10 "$limit" bash "$@" ;;
  *) exec timeout --kill-after=10 "$limit" "$@" ;;
esac
