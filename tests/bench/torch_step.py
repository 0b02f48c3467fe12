"""One training step of GPT-2 124M in plain PyTorch on the CPU, fp32, AdamW: the same work as bench_train_step, for a ratio in one run.
usage: torch_step.py [STEPS] [THREADS] [TOKENS]; prints the median in seconds and the memory in MiB."""
import resource
import sys
import time

import torch
import torch.nn as nn

from torch_models import Transformer

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 10
torch.set_num_threads(int(sys.argv[2]) if len(sys.argv) > 2 else 2)
TOKENS = int(sys.argv[3]) if len(sys.argv) > 3 else 64
BATCH = 4

torch.manual_seed(1)
model = Transformer("gpt2-124m", 1024)
optimizer = model.optimizer(3e-4, 0.1)
tokens, targets = (torch.randint(0, model.vocab, (BATCH, TOKENS)) for _ in range(2))
times = []
for step in range(STEPS + 1):
    begin = time.perf_counter()
    optimizer.zero_grad(set_to_none=True)
    loss = model(tokens, targets)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    loss.item()
    if step:
        times.append(time.perf_counter() - begin)
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
print(f"torch {torch.__version__} step {sorted(times)[len(times) // 2]:.3f} s (median of {STEPS}), memory {memory} MiB")
