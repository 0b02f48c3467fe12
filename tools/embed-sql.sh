#!/usr/bin/env bash
# Prints the SQL files given as a C array of strings, in the order given: migration N is the N-th.
set -euo pipefail
echo 'static const char *const migrations[] = {'
for f in "$@"; do
  echo "    /* $f */"
  sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/^/    "/' -e 's/$/\\n"/' "$f"
  echo '    ,'
done
echo '};'
