#!/usr/bin/env bash
# Data parallelism changes nothing but the speed: 1, 2 and 4 ranks give the same curve, and continue each other's checkpoints.
. "$(dirname "$0")/train_lib.sh"
plan 20

for n in 1 2 4; do job_file "dp$n"; done
ok "1 rank without mpirun" to out1 belay-train dp1.yaml
ok "2 ranks under mpirun" to out2 ranks 2 belay-train dp2.yaml
ok "4 ranks under mpirun" to out4 ranks 4 belay-train dp4.yaml
ok "losses of 2 ranks equal those of 1 to 1e-5" close_columns 2 1e-5 dp1 dp2
ok "losses of 4 ranks equal those of 1 to 1e-5" close_columns 2 1e-5 dp1 dp4
like "each of 4 ranks wrote a shard" "$(echo dp4/step-00000024/*)" 'rank-00000.*rank-00003.safetensors'
is "no more than 4" "$(ls dp4/step-00000024/*.safetensors | wc -l)" 4

# a number of ranks that divides neither the parameters nor their rows
job_file one3; job_file dp3
ok "1 rank, 12 sequences" to out10 belay-train one3.yaml --set train.batch.global=12
ok "3 ranks, 12 sequences" to out11 ranks 3 belay-train dp3.yaml --set train.batch.global=12
ok "losses of 3 ranks equal those of 1 to 1e-5" close_columns 2 1e-5 one3 dp3

# with a learning rate of 0 every gradient is one of the initial parameters
for n in 1 4; do
  job_file "still$n"
  sed -i 's/lr: 1e-3, min_lr: 1e-4, warmup: 4, schedule: cosine/lr: 0, min_lr: 0, warmup: 0, schedule: constant/' "still$n.yaml"
done
ok "1 rank without learning" to out5 belay-train still1.yaml
ok "4 ranks without learning" to out6 ranks 4 belay-train still4.yaml
ok "gradient norms are equal to 1e-6" close_columns 3 1e-6 still1 still4

# 4 ranks stop at step 10; 1 rank and 2 ranks go on
job_file half; cp half.yaml half4.yaml
ok "4 ranks to step 10" to out7 ranks 4 belay-train half4.yaml --set train.steps=24 --set checkpoint.every=10 --set limits.grace=5s
rm -rf half/step-00000020 half/step-00000024
cp -r half half2; sed 's/directory: half/directory: half2/' half.yaml >half2.yaml
ok "1 rank goes on from the 4 shards" to out8 belay-train half.yaml
ok "2 ranks go on from the 4 shards" to out9 ranks 2 belay-train half2.yaml
if close_columns 2 1e-5 half half2 && close_columns 2 1e-5 dp4 half; then r=same; else r=different; fi
is "all give one curve" "$r$(grep -c 'resuming from step 10, written by attempt 0 on 4 rank' out8 out9 | tr '\n' ' ')" "sameout8:1 out9:1 "

# --- threads without work sleep soon: more threads than cores must not make a step a hundred times slower
setting() { tr '\0' '\n' <"/proc/$1/environ" | grep -E '^(OMP_WAIT_POLICY|GOMP_SPINCOUNT)=' | tr '\n' ' '; }
spins() { # spins NAME [VARIABLE=VALUE]: what a run at work has in its environment
  job_file "$1"
  env BELAY_FAULT=hang@3 "${@:2}" belay-train "$1.yaml" >out 2>err &
  until_true 20 rows_at_least "$1" 2
  echo "$(cat /proc/$!/comm) $(setting $!)"
  kill -9 $!; wait $! 2>/dev/null
}
is "spinning is bounded" "$(spins bounded)" "belay-train GOMP_SPINCOUNT=1000 "
is "the user's policy is kept" "$(spins policy OMP_WAIT_POLICY=active)" "belay-train OMP_WAIT_POLICY=active "
is "the user's count is kept" "$(spins count GOMP_SPINCOUNT=7)" "belay-train GOMP_SPINCOUNT=7 "
