#!/bin/bash
# A rank that leaves a setsid grandchild, twice forked, that ignores SIGTERM, SIGHUP and SIGINT.
trap '' TERM HUP INT
(setsid bash -c 'trap "" TERM HUP INT; echo $$ >"$1"; while :; do sleep 1; done' stubborn "$1.grandchild" &) &
echo $$ >"$1.rank"
while :; do sleep 1; done
