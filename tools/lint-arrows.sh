#!/usr/bin/env bash
# Refuses an #include that breaks the arrows between the parts (docs/architecture.md), and in daemon/core/, planner/ and sim/ whatever could do I/O, read a
# clock, start a thread or draw randomness of its own. Files are named by their paths below the root; tests may include anything.
#   lint-arrows.sh FILE...
set -u
awk '
BEGIN {
  # what each part may include; a file belongs to the part of the longest folder that is named here
  may["common"] = "common"
  may["schema"] = "schema common"
  may["checkpoint"] = "checkpoint common"
  may["planner"] = "planner schema common"
  may["daemon/core"] = "daemon/core planner schema common"
  may["daemon"] = "daemon daemon/core planner schema common"
  may["sim"] = "sim daemon/core planner schema common"
  may["agent"] = "agent schema common"
  may["agent/shim"] = "agent/shim checkpoint schema common"
  may["launcher"] = "launcher checkpoint sim daemon/core planner schema common"
  may["kernels"] = "kernels common"
  may["kernels/cpu"] = "kernels kernels/cpu common"
  may["kernels/cuda"] = "kernels kernels/cuda common"
  # the rooms of the runtime; the trainer and its subcommands, in the folder itself, use them all
  may["runtime/comm"] = "runtime/comm kernels common"
  may["runtime/comm/nccl"] = "runtime/comm runtime/comm/nccl kernels kernels/cuda common"
  may["runtime/text"] = "runtime/text common"
  may["runtime/data"] = "runtime/data runtime/text schema common"
  may["runtime/model"] = "runtime/model runtime/comm kernels schema common"
  may["runtime/engine"] = "runtime/engine runtime/model runtime/comm kernels schema common"
  may["runtime/convert"] = "runtime/convert checkpoint runtime/text runtime/model runtime/comm schema common"
  may["runtime"] = "runtime runtime/comm runtime/text runtime/data runtime/model runtime/engine checkpoint runtime/convert kernels kernels/cuda planner schema common"
  # parts that compute only: the core, and the planner and simulator around it
  pure["daemon/core"] = pure["planner"] = pure["sim"] = 1
  # what they may use: values, text and memory; the rest of libc and of common/ reaches outside
  core_may = " assert.h ctype.h errno.h inttypes.h limits.h math.h stdarg.h stdbool.h stddef.h stdint.h stdio.h stdlib.h string.h jansson.h" \
             " common/clock.h common/err.h common/mem.h common/mix.h common/retention.h "
  # and what of these reaches outside all the same (common/clock.h is there to print durations)
  core_calls = "(^|[^A-Za-z0-9_])(clock_boot_ms|clock_monotonic_s|clock_utc_ms|getenv|setenv|system|exit|s?rand|s?random|drand48|v?printf" \
               "|v?fprintf|puts|fopen|fwrite|remove|rename|json_load_file|json_dump_file|json_dumpf)[ \t]*\\("
}
function part_of(path) {
  while (sub(/\/[^\/]*$/, "", path) && !(path in may)) {}
  return path in may ? path : ""
}
function refuse(why) { print FILENAME ":" FNR ": " why > "/dev/stderr"; bad = 1 }
FNR == 1 { part = FILENAME ~ /^tests\// ? "" : part_of(FILENAME) }
part == "" { next }
/^[ \t]*#[ \t]*include[ \t]*[<"]/ {
  split($0, word, /[<>"]/)
  to = part_of(word[2])
  if (to != "" && index(" " may[part] " ", " " to " ") == 0)
    refuse(part "/ cannot include " word[2] "; its arrows go to: " may[part])
  else if (part in pure && (to == "" || to == "common") && index(core_may, " " word[2] " ") == 0)
    refuse(part "/ is pure: no I/O, clock or thread; it cannot include " word[2])
}
part in pure && $0 ~ core_calls { refuse(part "/ is pure: its caller hands in the time and a seed, and prints: " $0) }
END { exit bad }
' "$@"
