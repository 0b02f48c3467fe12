#!/usr/bin/env bash
# Refuses functions that cannot be used safely, unfinished marks, trailing white space, and signals to a bare pid: a pid may be another
# process by now, so common/procid.h sends them. The files below signal only children of their own that are not reaped yet, whose
# number cannot be another's.
set -u
bad=0
report() { echo "$1" >&2; bad=1; }
banned='\b(sprintf|vsprintf|strcpy|strcat|gets|atoi|atol|atof|strtok|tmpnam|mktemp|alloca|asctime|ctime|rand|srand)\s*\('
found=$(grep -nE "$banned" "$@" | grep -vE ':[0-9]+:\s*(/\*|\*|//)')
[ -n "$found" ] && report "banned functions:"$'\n'"$found"
found=$(grep -nE '\b(TODO|FIXME|XXX|HACK)\b' "$@")
[ -n "$found" ] && report "unfinished marks:"$'\n'"$found"
own_children='^(common/(procid|proctree)\.c|agent/(sweep|shimproc)\.c|agent/shim/ranks\.c|tests/)'
found=$(grep -HnE '\b(kill|killpg|tgkill|pidfd_send_signal)[[:space:]]*\(' "$@" | grep -vE "$own_children")
[ -n "$found" ] && report "signals to a bare pid (use procid_kill):"$'\n'"$found"
found=$(grep -nE '[[:space:]]+$' "$@")
[ -n "$found" ] && report "trailing white space:"$'\n'"$found"
exit $bad
