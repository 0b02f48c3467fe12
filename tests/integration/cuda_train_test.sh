#!/usr/bin/env bash
# Training on a GPU, which the emulator of tests/emu plays: choosing it, the same bits however its streams run, after a restart, and over NCCL as through the
# hosts; and meshes of ranks against one rank in double on the CPU.
. "$(dirname "$0")/train_lib.sh"
: "${BELAY_TEST_PROGRAMS:?set BELAY_TEST_PROGRAMS to the folder of the built test programs (make check does)}"
unset BELAY_COMM EMU_STREAMS EMU_DEVICES BELAY_CUDA_GRAPHS
BELAY_CUDA_LIBRARY=$(realpath "$BELAY_BIN/../emu/lib/libbelay_cuda.so")
export BELAY_CUDA_LIBRARY
[ -z "${BELAY_SANITIZER:-}" ] || { skip "training on an emulated GPU" "its fibers and sanitizers do not go together"; plan 1; exit; }

# gpu_job NAME: a tiny job on a GPU
gpu_job() {
  cat >"$1.yaml" <<END
name: $1
train:
  model: {arch: llama, layers: 1, hidden: 32, heads: 4, kv_heads: 2, ffn: 48, context: 16}
  data: {path: corpus.txt, tokenizer: bytes, holdout: 0.05}
  steps: 4
  batch: {global: 4, micro: 2}
  optimizer: {lr: 1e-3}
  precision: bf16
  eval: {every: 2, sequences: 2}
  seed: 11
resources: {device: gpu, cpus: 1, memory: 64MiB}
checkpoint: {directory: $1, every: 2}
END
}
told() { cut -d, -f1,2,3,14 "$1/metrics.csv"; } # step, loss, norm, held-out loss

# --- choosing
gpu_job straight
said=$(BELAY_CUDA_LIBRARY=/nowhere/lib.so belay-train straight.yaml 2>&1)
is "a GPU without its backend is an error" $? 1
like "and says so" "$said" 'no GPU to compute on \(device: cpu takes the CPU\): the CUDA backend cannot be loaded \(/nowhere/lib.so'
said=$(EMU_DEVICES=0 belay-train straight.yaml 2>&1)
like "so does the lack of a GPU" "$said" 'no GPU to compute on .*: no NVIDIA GPU is visible here'
said=$(EMU_CAPABILITY=7.5 belay-train straight.yaml 2>&1)
like "and a GPU that is too old" "$said" 'takes the CPU\): GPU 0 \(Emulated GPU\) has compute capability 7\.5; Belay needs 8\.0'
gpu_job other
ok "auto takes the CPU then" to none env EMU_DEVICES=0 belay-train other.yaml --set resources.device=auto --set train.steps=1
like "and tells its library" "$(cat none)" 'OpenBLAS'
like "and why it is not a GPU" "$(cat none)" 'computing on the CPU, though there seems to be a GPU: no NVIDIA GPU is visible here'
gpu_job hidden
CUDA_VISIBLE_DEVICES='' ok "GPUs that were hidden" to none belay-train hidden.yaml --set resources.device=auto --set train.steps=1
is "are not spoken of" "$(grep -c 'GPU' none)" 0

# --- bits
ok "a run on a GPU" to out belay-train straight.yaml
like "names it" "$(cat out)" '^GPU 0: Emulated GPU, .* in all$'
like "and what it had to hold" "$(cat out)" '^memory of GPU 0 at most: 0.0[0-9]* GiB of '
gpu_job killed
BELAY_FAULT=kill@4 belay-train killed.yaml >out1 2>&1
is "killed" $? 137
ok "and resumed" to out2 belay-train killed.yaml
is "it goes on bit by bit" "$(told killed)" "$(told straight)"
gpu_job lazy
EMU_STREAMS=lazy EMU_SEED=$((RANDOM % 100)) EMU_GUARD=1 ok "streams that run late, and memory that the host cannot touch" to out3 belay-train lazy.yaml
is "they change no bit" "$(told lazy)" "$(told straight)"
gpu_job single
BELAY_CUDA_GRAPHS=0 ok "without graphs" to out4 belay-train single.yaml
is "no bit is another" "$(told single)" "$(told straight)"
ok "the files are the same" cmp {straight,single}/step-00000004/rank-00000.safetensors

# --- from a GPU's checkpoint
texts() { belay-train generate --checkpoint straight --prompt "The GNU" --max-tokens 8 --temperature 0 --device "$1" "${@:2}" 2>&1; }
is "text is the same from a GPU as from the CPU" "$(texts gpu | md5sum)" "$(texts cpu | md5sum)"

# --- fp8
EMU_CAPABILITY=9.0; export EMU_CAPABILITY
eight=(--set train.precision=fp8 --set parallel.dp=2)
gpu_job whole; gpu_job broken
ok "a run in fp8" to out8 under 2 belay-train whole.yaml "${eight[@]}"
BELAY_FAULT=kill@4 under 2 belay-train broken.yaml "${eight[@]}" >out9 2>&1
ok "and one that was killed, and resumed" to out9 under 2 belay-train broken.yaml "${eight[@]}"
is "it goes on bit by bit" "$(told broken)" "$(told whole)"
is "with the magnitudes that it had" "$(grep -c 'no magnitudes' out9)" 0
other=(--set train.precision=fp8 --set parallel.tp=2 --set checkpoint.resume=auto --set train.steps=5)
ok "another mesh of as many ranks goes on, too" to out10 under 2 belay-train whole.yaml "${other[@]}"
like "with magnitudes of its own" "$(cat out10)" 'no magnitudes of fp8 for this mesh: they are looked for anew'
unset EMU_CAPABILITY

# --- ranks
two=(--set parallel.dp=2 --set parallel.zero=1 --set train.steps=2)
gpu_job staged; gpu_job nccl
EMU_STREAMS=lazy ok "two ranks share a GPU" to out5 under 2 belay-train staged.yaml "${two[@]}"
EMU_STREAMS=lazy EMU_DEVICES=2 ok "or have one each" to out6 under 2 belay-train nccl.yaml "${two[@]}"
is "with the same bits" "$(told nccl)" "$(told staged)"

# --- meshes; check_mesh SET: its TAP lines, numbered on
check_mesh() {
  to mesh.log under 2 "$(dirname "$BELAY_TEST_PROGRAMS")/mesh/mesh_check" "$SCRATCH" "$1"
  grep -E '^(not )?ok' mesh.log >mesh.out
  ok "the meshes of set $1 are there" test -s mesh.out
  while read -r line; do
    case $line in
      ok*) ok "${line#ok * - }" true ;;
      not*) ok "${line#not ok * - }" false ;;
    esac
  done <mesh.out
}
ok "the reference" to out7 "$(dirname "$BELAY_TEST_PROGRAMS")/mesh/mesh_reference" "$SCRATCH"
check_mesh gpu
EMU_DEVICES=2 EMU_STREAMS=lazy check_mesh gpu-bf16
plan "$TAP_COUNT"
