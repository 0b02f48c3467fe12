#!/usr/bin/env bash
# The shared object of the CUDA backend: loads where there is no driver and says so, exports one symbol, and does not need libcuda.so.1; and its
# twin for the emulator, which has devices.
. "$(dirname "$0")/../lib.sh"
build=${BELAY_BIN%/bin}
open=$BELAY_TEST_PROGRAMS/cuda_open
plan 12

exports() { nm -D --defined-only "$1" | awk '{ print $NF }'; }
# check NAME FILE: what holds for both
check() {
  is "$1 exports one symbol" "$(exports "$2")" belay_cuda_backend
  is "$1 does not need the driver" "$(readelf -d "$2" | grep -c 'NEEDED.*libcuda\.')" 0
}

emulated=$build/emu/lib/libbelay_cuda.so
check "the emulated backend" "$emulated"
said=$("$open" "$emulated" 2>&1)
like "it has a device" "$said" "^devices 1$"
like "which has an id" "$said" "^id [0-9a-f-]{36}$"
like "and is described" "$said" "^described as Emulated GPU, [0-9]+ SMs, 2\.0 GiB, CUDA [0-9.]+, .*cuBLASLt [0-9.]+$"
is "and takes copies, opened again, too" "$(grep -c "^copies arrive$" <<<"$said")" 2
is "two devices are told apart by their ids" \
  "$(for i in 0 1; do EMU_DEVICES=2 CUDA_VISIBLE_DEVICES=$i "$open" "$emulated"; done | grep ^id | sort -u | wc -l)" 2

library=$build/lib/libbelay_cuda.so
if [ -e "$library" ]; then
  check "the backend" "$library"
  like "it loads, and has devices or says why not" "$(CUDA_VISIBLE_DEVICES='' "$open" "$library" 2>&1)" \
    "^because (there is no NVIDIA driver on this node|no NVIDIA GPU is visible here|the NVIDIA driver of this node is for)"
else
  for what in "the backend exports one symbol" "the backend does not need the driver" "it loads, and has devices or says why not"; do
    skip "$what" "no nvcc built it"
  done
fi

# --- a toolkit without the headers of cuBLAS and NCCL
mkdir -p "$SCRATCH"/toolkit/{bin,include} && : >"$SCRATCH/toolkit/bin/nvcc"
unset MAKEFLAGS MAKELEVEL # of the make that runs the tests
said=$(make -C "$(dirname "$0")/../.." --no-print-directory CC="cc -nostdinc" BUILD="$SCRATCH/build" CUDA_HOME="$SCRATCH/toolkit" NO_CUDA='' SANITIZER='' cuda 2>&1)
is "make cuda fails" $? 2
like "and says what is missing" "$said" "^The CUDA backend is left out: there is $SCRATCH/toolkit/bin/nvcc without cublasLt\.h nccl\.h\. It needs CUDA 13"
