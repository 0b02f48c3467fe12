#!/usr/bin/env bash
# The linters of this tree: an include that breaks the arrows, an impure core and a signal to a bare pid are refused.
. "$(dirname "$0")/../lib.sh"
tools=$(cd "$(dirname "$0")/../../tools" && pwd)
plan 17
cd "$SCRATCH" || exit 1

# refused TOOL FILE LINE: TOOL complains about a file of that one line
refused() {
  mkdir -p "$(dirname "$2")"
  printf '%s\n' "$3" >"$2"
  ! bash "$tools/$1" "$2" 2>said
}
while IFS='|' read -r file line; do
  ok "refused: $line in $file" refused lint-arrows.sh "$file" "$line"
  like "... with the place" "$(cat said)" "^$file:1: "
done <<'END'
common/x.c|#include "schema/job.h"
schema/x.h|#include "daemon/view.h"
launcher/x.c|#include "agent/agent.h"
kernels/cpu/x.c|#include "runtime/model.h"
daemon/core/x.c|#include <time.h>
daemon/core/x.c|#include "daemon/store.h"
daemon/core/x.c|    int64_t now = clock_utc_ms();
END
ok "refused: a signal to a bare pid" refused lint-banned.sh daemon/x.c '    kill(pid, SIGKILL);'
printf '#include "common/mem.h"\n#include <string.h>\n' >daemon/core/x.c
ok "what the core may use is let through" bash "$tools/lint-arrows.sh" daemon/core/x.c
printf '#include "daemon/view.h"\n' >daemon/x.c
ok "a part may include itself" bash "$tools/lint-arrows.sh" daemon/x.c
