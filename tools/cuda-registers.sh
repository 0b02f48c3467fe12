#!/usr/bin/env bash
# What ptxas says of the CUDA kernels, as the table of docs/cuda-registers.md on stdout: registers, spilled bytes and fixed shared memory of each.
#   cuda-registers.sh NVCC FILE.ptxas...            prints the table
#   cuda-registers.sh --check TABLE NVCC FILE...    fails when the table is another one; only spills are looked at when it is of another nvcc
# Both fail when a kernel spills registers to memory that is not named here as one whose speed does not matter, or which is faster so, and when products of
# wgmma wait for each other: ptxas makes them when it cannot see that their registers are left alone, and says so in passing only.
set -u
cold='^(tiles_product|attention_plain_[a-z]+)<' # where cuBLASLt has no algorithm; attention in float

check=
if [ "${1:-}" = --check ]; then check=$2; shift 2; fi
[ $# -ge 2 ] || { echo "usage: cuda-registers.sh [--check TABLE] NVCC FILE.ptxas..." >&2; exit 2; }
nvcc=$1; shift
version=$("$nvcc" --version | sed -n 's/^.*release .*, V\(.*\)$/\1/p')

# file, kernel (mangled), architecture, registers, spilled bytes, shared bytes
facts() {
  awk '
    /Compiling entry function/ { split($0, part, "\x27"); kernel = part[2]; arch = part[4]; spilled = 0; in_kernel = 1 }
    in_kernel && /bytes spill stores/ { split($0, word, /[ ,]+/); for (i in word) if (word[i + 2] == "spill" && word[i + 3] == "stores") spilled = word[i] }
    in_kernel && /Used [0-9]+ registers/ {
      shared = 0
      match($0, /Used [0-9]+/); registers = substr($0, RSTART + 5, RLENGTH - 5)
      if (match($0, /[0-9]+ bytes smem/)) shared = substr($0, RSTART, RLENGTH - 11)
      file = FILENAME; sub(/.*\//, "", file); sub(/\.ptxas$/, "", file)
      print file, kernel, arch, registers, spilled, shared
      in_kernel = 0
    }' "$@"
}
# Names as they stand in the sources: without the type of the result and the parameters.
plain_names() {
  c++filt | awk '{
    line = $0; head = $1 "\t"; sub(/^[^ ]+ /, "", line)
    tail = line; match(tail, /sm_[0-9a-z]+ [0-9]+ [0-9]+ [0-9]+$/); tail = substr(tail, RSTART); name = substr(line, 1, length(line) - length(tail) - 1)
    sub(/^void /, "", name); gsub(/__nv_bfloat16/, "bf16", name)
    depth = 0
    for (i = 1; i <= length(name); i++) {
      c = substr(name, i, 1)
      if (c == "<") depth++
      else if (c == ">") depth--
      else if (c == "(" && depth == 0) { name = substr(name, 1, i - 1); break }
    }
    gsub(/ /, "\t", tail)
    print head name "\t" tail
  }'
}
table() {
  echo "# Registers of the CUDA kernels"
  echo
  echo "What ptxas says (nvcc $version); \`make cuda-registers\` writes it. Shared memory is that of fixed size, in bytes."
  echo
  echo "| file | kernel | registers sm_80 | spilled | shared | registers sm_90a | spilled | shared |"
  echo "|---|---|---|---|---|---|---|---|"
  LC_ALL=C sort <<<"$rows" | awk -F'\t' '
    function flush() { if (key != "") print "| " file " | `" kernel "` | " cell["sm_80"] " | " cell["sm_90a"] " |" }
    $1 FS $2 != key { flush(); key = $1 FS $2; file = $1; kernel = $2; cell["sm_80"] = cell["sm_90a"] = "- | - | -" }
    { cell[$3] = $4 " | " $5 " | " $6 }
    END { flush() }'
}

rows=$(facts "$@" | plain_names)
[ -n "$rows" ] || { echo "cuda-registers: there is no kernel in $*" >&2; exit 1; }
rc=0
spills=$(awk -F'\t' -v cold="$cold" '$5 > 0 && $2 !~ cold { print "  " $1 ".cu: " $2 " on " $3 ": " $5 " bytes" }' <<<"$rows")
if [ -n "$spills" ]; then
  printf 'kernels that spill registers to memory:\n%s\n' "$spills" >&2
  echo "Make them smaller, or give them fewer threads (__launch_bounds__); what need not be fast is named in tools/cuda-registers.sh." >&2
  rc=1
fi
waits=$(grep -hE 'wgmma.mma_async instructions are serialized|warpgroup.(wait|arrive) is injected' "$@" | c++filt)
if [ -n "$waits" ]; then
  printf 'products of wgmma that wait for each other:\n%s\n' "$waits" >&2
  echo "Put settle() and wgmma_fence around them (kernels/cuda/hopper.cuh), or give them more registers." >&2
  rc=1
fi
if [ -z "$check" ]; then table; exit $rc; fi
if grep -qF "(nvcc $version)" "$check" && ! diff <(table) "$check" >&2; then
  echo "$check is not what ptxas says now: run make cuda-registers" >&2
  rc=1
fi
exit $rc
