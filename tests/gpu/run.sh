#!/usr/bin/env bash
# Shows the CUDA backend on a GPU, in at most six minutes on one H200: builds it there, compares every kernel and every kind of mesh with the reference, trains
# beside PyTorch on the same weights and samples, resumes bitwise, and measures. The table is printed, all numbers go to OUT/results.json.
#
#   run.sh [--out DIR] [--only SECTIONS] [--emulated]
#
#   --out DIR        where results and logs go (default: a new folder below build/)
#   --only SECTIONS  some of build,kernels,meshes,training,resume,measure (with commas)
#   --emulated       on this host, with the emulator of tests/emu instead of a GPU and tiny sizes: tries the script itself, measures nothing
#
# Needs on the GPU machine: nvcc (CUDA 13), gcc, make, python3 with PyTorch. What else belay-train is built with comes from Debian packages, or, where nothing can be
# installed, from build/gpu-root.tar.xz, which tests/gpu/pack.sh makes on a Debian machine. Exit code: 0 when every section passed.
# shellcheck disable=SC2317 # sections are functions that bash -c calls
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
top=$PWD here=$PWD/tests/gpu out='' only=build,kernels,meshes,training,resume,measure emulated=''
while [ $# -gt 0 ]; do
  case $1 in
    --out) out=$2; shift 2 ;;
    --only) only=$2; shift 2 ;;
    --emulated) emulated=1; shift ;;
    *) sed -n '2,13p' "$0"; exit 2 ;;
  esac
done
mkdir -p build
out=${out:-$(mktemp -d "$top/build/gpu-run-XXXXXX")}
mkdir -p "$out"
out=$(cd "$out" && pwd)
if [ -e build/gpu-root.tar.xz ] && [ -z "$emulated" ]; then
  root=$(mktemp -d)
  tar -C "$root" -xJf build/gpu-root.tar.xz
  # shellcheck disable=SC1091
  . "$root/gpu-root/env.sh"
fi
if [ -n "$emulated" ]; then
  build=build device=gpu python=/usr/bin/python3 torch_device=cpu
  export BELAY_CUDA_LIBRARY=$top/build/emu/lib/libbelay_cuda.so EMU_MEMORY=$((8 << 30)) EMU_CAPABILITY=9.0
  train_model=(gpt2-tiny 32 6 4) steps_tolerance=0.03
else
  build=build/gpu device=gpu python=python3 torch_device=cuda
  export BELAY_CUDA_LIBRARY=$top/$build/lib/libbelay_cuda.so CUDA_HOME=${CUDA_HOME:-/usr/local/cuda}
  train_model=(gpt2-124m 1024 60 16) steps_tolerance=0.05
fi
train=$top/$build/bin/belay-train
# What of the toolkit is elsewhere (PyTorch's packages bring cuBLAS and NCCL along) is found by links in one folder.
find_toolkit() {
  local links=$top/$build/links site file lib
  mkdir -p "$links/include" "$links/lib"
  site=$("$python" -c 'import nvidia, os; print(os.path.dirname(list(nvidia.__path__)[0]) + "/nvidia")' 2>/dev/null) || site=/nowhere
  for file in cublasLt.h nccl.h; do
    [ -e "$CUDA_HOME/include/$file" ] || [ -e "/usr/include/$file" ] ||
      find "$site" -name "$file" -exec sh -c 'ln -sf "$(dirname "$1")"/* "$2"' sh {} "$links/include" \; -quit 2>/dev/null
  done
  for lib in cublasLt nccl; do
    [ -e "$CUDA_HOME/lib64/lib$lib.so" ] && continue
    file=$( (ldconfig -p | awk -v l="lib$lib.so" 'index($1, l) == 1 {print $NF}'; find "$site" -name "lib$lib.so*" 2>/dev/null) | head -n 1)
    [ -z "$file" ] || { ln -sf "$file" "$links/lib/lib$lib.so"; ln -sf "$file" "$links/lib/${file##*/}"; }
  done
  export CPATH=$links/include${CPATH:+:$CPATH} LIBRARY_PATH=$links/lib${LIBRARY_PATH:+:$LIBRARY_PATH}
  export LD_LIBRARY_PATH=$links/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
}
# no WHAT: ends with a sentence
no() { echo "run.sh: $1; --emulated tries the script without a GPU" >&2; exit 2; }
if [ -z "$emulated" ]; then
  [ -e /dev/nvidiactl ] || [ -e /dev/dxg ] || no "there is no NVIDIA GPU on this machine"
  command -v nvcc >/dev/null || [ -x "$CUDA_HOME/bin/nvcc" ] || no "nvcc is neither in the PATH nor in $CUDA_HOME (CUDA_HOME)"
  "$python" -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null || no "$python has no PyTorch that sees the GPU"
  nvcc=$(command -v nvcc || echo "$CUDA_HOME/bin/nvcc")
  CUDA_HOME=$(cd "$(dirname "$(readlink -f "$nvcc")")/.." && pwd)
  export CUDA_HOME
  find_toolkit
fi
begun=$SECONDS failed=0
whole=360 # seconds for all of it
[ -z "$emulated" ] || whole=1800
say() { printf '%4d s  %s\n' $((SECONDS - begun)) "$*"; }
wanted() { [[ ,$only, == *,$1,* ]]; }
# section NAME SECONDS COMMAND...: one part of the run with a limit of its own; its output is kept, its end shown
section() {
  local name=$1 limit=$2 start=$SECONDS verdict left
  shift 2
  wanted "$name" || return 0
  left=$((whole - (SECONDS - begun)))
  [ "$limit" -le "$left" ] || limit=$((left > 1 ? left : 1))
  if timeout -k 5 "$limit" bash -c '"$@"' bash "$@" >"$out/$name.log" 2>&1; then verdict=passed; else verdict=FAILED; failed=1; fi
  printf '{"section": "%s", "passed": %s, "seconds": %d}\n' "$name" "$([ $verdict = passed ] && echo true || echo false)" $((SECONDS - start)) >>"$out/sections.jsonl"
  say "$name: $verdict in $((SECONDS - start)) s"
  [ $verdict = passed ] || tail -n 15 "$out/$name.log" | sed 's/^/        | /'
}
export top here out build device python torch_device train emulated steps_tolerance
under() { # N COMMAND...: as N ranks on this host
  local n=$1; shift
  mpirun --allow-run-as-root --oversubscribe --bind-to none --mca btl self,vader,tcp -n "$n" "$@" </dev/null
}
build_all() {
  if [ -n "$emulated" ]; then make -j"$(nproc)" build-tests "$build/tests/bench/bench_kernels" "$build/tests/bench/bench_train"; return; fi
  make -j"$(nproc)" BUILD="$build" CUDA_ARCH=-gencode=arch=compute_90a,code=sm_90a CFLAGS='-O2 -g -Wno-error' \
    PACKAGES='libevent libevent_pthreads jansson yaml-0.1 hwloc openblas libxxhash libutf8proc libcrypto pmix ompi-c' \
    "$build/bin/belay-train" "$build/lib/libbelay_cuda.so" gpu-tests "$build/tests/mesh/mesh_check" "$build/tests/mesh/mesh_reference" \
    "$build/tests/bench/bench_kernels" "$build/tests/bench/bench_train"
}
# Each kernel of the table against the CPU's in double, with the programs of tests/cuda. Last what waits for hardware by mbarriers, and is off by default: were it to
# hang, the time of the others would not be gone.
check_kernels() {
  local rc=0 t dir=$build/tests/gpu tests=() last=()
  [ -z "$emulated" ] || dir=$build/tests/cuda
  for t in "$dir"/*_test; do
    case $t in
      *planted* | *streams* | *emu*) ;; # about the emulator itself
      *hopper*) last+=("$t") ;;
      *) tests+=("$t") ;;
    esac
  done
  for t in "${tests[@]}" "${last[@]}"; do
    echo "== ${t##*/}"
    CMOCKA_MESSAGE_OUTPUT=TAP timeout -k 2 20 "$t" || { echo "FAILED: ${t##*/}"; rc=1; }
  done
  return "$rc"
}
# Four ranks share the GPU over the staged path: every axis and mixtures against one rank in double.
check_meshes() {
  local work=$out/meshes rc=0
  mkdir -p "$work"
  export OMP_NUM_THREADS=2
  "$build/tests/mesh/mesh_reference" "$work" || return 1
  if [ -n "$emulated" ]; then under 4 "$build/tests/mesh/mesh_check" "$work" gpu "one rank"; return; fi
  export BELAY_TEST_DEVICE=gpu BELAY_COMM=staged
  for set in fp32 bf16 odd; do under 4 "$build/tests/mesh/mesh_check" "$work" "$set" || rc=1; done
  return "$rc"
}
against_torch() { # PRECISION TOLERANCE: the same job in that precision beside PyTorch's losses
  local work=$out/train
  cd "$work" || return 1
  sed "s/precision: .*/precision: $1/; s/directory: ckpt.*/directory: ckpt-$1, every: 1000, keep: 1}/" job.yaml >"job-$1.yaml"
  "$train" "job-$1.yaml" || return 1
  echo "$1: $("$python" "$here/compare.py" losses.json "ckpt-$1/metrics.csv" "$2")"
}
check_training() {
  local work=$out/train options=(--belay-device "$device" --device "$torch_device") rc=0
  [ -z "$emulated" ] || options+=(--fp32)
  "$python" "$here/torch_train.py" "$work" "$1" "$2" "$3" "$4" "${options[@]}" || return 1
  (against_torch bf16 "$steps_tolerance") || rc=1
  (against_torch fp8 0.15) || rc=1
  return "$rc"
}
# Ten steps in one go, and the last five again from the checkpoint of the fifth: the same bits.
check_resume() {
  local work=$out/resume p
  mkdir -p "$work"
  cp -r "$out/train/model" "$out/train/tokens.bin" "$work/" && cd "$work" || return 1
  for p in bf16 fp8; do
    sed "s/steps: .*/steps: 10/; s/ckpt.*/$p, every: 5}/" "../train/job-$p.yaml" >"$p.yaml"
    sed "s/directory: $p/directory: $p-again/" "$p.yaml" >"$p-again.yaml"
    "$train" "$p.yaml" && cp -r "$p" "$p-again" && rm -r "$p-again/step-00000010" && "$train" "$p-again.yaml" || return 1
    cmp <(cut -d, -f1-3 "$p/metrics.csv") <(cut -d, -f1-3 "$p-again/metrics.csv") || return 1
  done
}
measure() {
  local sizes=(gpt2-124m:32:1024 gpt2-1558m:8:1024 llama-1b:8:2048) s model batch tokens rc=0 options=(--device "$device" --precision bf16)
  [ -z "$emulated" ] || { echo "the emulator is not measured"; sizes=(gpt2-tiny:2:32); }
  [ -n "$emulated" ] || "$top/$build/tests/bench/bench_kernels" "${options[@]}" --json >"$out/kernels.jsonl" || rc=1
  for s in "${sizes[@]}"; do
    IFS=: read -r model batch tokens <<<"$s"
    "$top/$build/tests/bench/bench_train" "${options[@]}" --model "$model" --batch "$batch" --tokens "$tokens" --steps 8 --json >>"$out/belay.jsonl" || rc=1
    "$python" "$here/torch_bench.py" "$model" "$batch" "$tokens" --device "$torch_device" --steps 8 >>"$out/torch.jsonl" || rc=1
  done
  return "$rc"
}
export -f under build_all check_kernels check_meshes against_torch check_training check_resume measure
: >"$out/sections.jsonl"
if [ -z "$emulated" ] && wanted measure; then
  # PyTorch compiles its steps while Belay is built; measured later, from what it then has in its cache.
  export TORCHINDUCTOR_CACHE_DIR=$out/inductor
  (for s in "gpt2-124m 32 1024" "llama-1b 8 2048" "gpt2-1558m 8 1024"; do
    # shellcheck disable=SC2086
    timeout 150 "$python" "$here/torch_bench.py" $s --steps 1
  done) >"$out/warm.log" 2>&1 &
  warming=$!
fi
section build 150 build_all
section kernels 60 check_kernels
section meshes 60 check_meshes
section training 80 check_training "${train_model[@]}"
section resume 40 check_resume
if [ -n "${warming:-}" ]; then wait "$warming"; fi
section measure 150 measure
"$python" "$here/report.py" "$out" "${emulated:+emulated}" || failed=1
say "results: $out/results.json"
exit $failed
