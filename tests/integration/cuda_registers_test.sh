#!/usr/bin/env bash
# tools/cuda-registers.sh: the table from what ptxas says, and what it refuses.
. "$(dirname "$0")/../lib.sh"
tool=$(cd "$(dirname "$0")/../.." && pwd)/tools/cuda-registers.sh
plan 9
cd "$SCRATCH" || exit 1

printf '#!/bin/sh\necho "Cuda compilation tools, release 13.0, V13.0.88"\n' >nvcc && chmod +x nvcc
# says FILE ARCHITECTURE MANGLED SPILLED REGISTERS [MORE]
says() {
  cat >>"$1" <<SAID
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '$3' for '$2'
ptxas info    : Function properties for $3
    16 bytes stack frame, $4 bytes spill stores, $4 bytes spill loads
ptxas info    : Used $5 registers, used 1 barriers${6:-}
SAID
}
rows='_Z9bias_rowsI13__nv_bfloat16EvPT_PKS1_S4_mm' plain='_Z14norm_add_partsPfPKf' cold='_Z13tiles_productIffEvmPKT_PT0_'
says a.ptxas sm_80 $rows 0 22 ', 400 bytes cmem[0]'
says a.ptxas sm_90a $rows 0 20
says b.ptxas sm_90a $plain 0 32 ', 2112 bytes smem'
says b.ptxas sm_80 $cold 24 128
bash "$tool" ./nvcc a.ptxas b.ptxas >table 2>said
is "a table is made" $? 0
is "with a row for each kernel" "$(grep -c '^| [ab] ' table)" 3
like "by the name of the source" "$(cat table)" '^\| a \| .bias_rows<bf16>. \| 22 \| 0 \| 0 \| 20 \| 0 \| 0 \|$'
like "also where an architecture has none" "$(cat table)" '^\| b \| .norm_add_parts. \| - \| - \| - \| 32 \| 0 \| 2112 \|$'
ok "the same again is accepted" bash "$tool" --check table ./nvcc a.ptxas b.ptxas
says a.ptxas sm_80 $plain 0 40
like "another is not" "$(bash "$tool" --check table ./nvcc a.ptxas b.ptxas 2>&1 || echo refused)" 'run make cuda-registers'
sed -i 's/13\.0\.88/12.9.1/' table
ok "but of another compiler it is" bash "$tool" --check table ./nvcc a.ptxas b.ptxas
says a.ptxas sm_80 $rows 8 255
like "a kernel that spills is named" "$(bash "$tool" --check table ./nvcc a.ptxas b.ptxas 2>&1 || echo refused)" 'a\.cu: bias_rows<bf16> on sm_80: 8 bytes'
cp b.ptxas c.ptxas
echo "ptxas info    : (C7512) Potential Performance Loss: wgmma.mma_async instructions are serialized due to insufficient register resources for the function '$plain'" >>c.ptxas
like "and products of wgmma that wait for each other" "$(bash "$tool" ./nvcc c.ptxas 2>&1 || echo refused)" 'serialized .*norm_add_parts\(float'
