#!/usr/bin/env bash
# Refuses functions that cannot be used safely, unfinished marks, and bare pid kills outside the modules that own them.
set -u
bad=0
report() { echo "$1" >&2; bad=1; }
banned='\b(sprintf|vsprintf|strcpy|strcat|gets|atoi|atol|atof|strtok|tmpnam|mktemp|alloca|asctime|ctime|rand|srand)\s*\('
found=$(grep -nE "$banned" "$@" | grep -vE ':[0-9]+:\s*(/\*|\*|//)')
[ -n "$found" ] && report "banned functions:"$'\n'"$found"
found=$(grep -nE '\b(TODO|FIXME|XXX|HACK)\b' "$@")
[ -n "$found" ] && report "unfinished marks:"$'\n'"$found"
found=$(grep -nE '[[:space:]]+$' "$@")
[ -n "$found" ] && report "trailing white space:"$'\n'"$found"
exit $bad
