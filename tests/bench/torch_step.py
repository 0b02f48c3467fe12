"""One training step of GPT-2 124M in plain PyTorch on the CPU, fp32, AdamW: the same work as bench_train_step, for a ratio in one run.
usage: torch_step.py [STEPS] [THREADS] [TOKENS]; prints the median in seconds and the memory in MiB."""
import math
import resource
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 10
torch.set_num_threads(int(sys.argv[2]) if len(sys.argv) > 2 else 2)
TOKENS = int(sys.argv[3]) if len(sys.argv) > 3 else 64
VOCAB, CONTEXT, WIDTH, HEADS, LAYERS, BATCH = 50257, 1024, 768, 12, 12, 4


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x, mask):
        b, t, _ = x.shape
        q, k, v = (y.view(b, t, HEADS, -1).transpose(1, 2) for y in self.qkv(self.norm1(x)).split(WIDTH, dim=2))
        a = F.softmax((q @ k.transpose(-2, -1)) / math.sqrt(WIDTH // HEADS) + mask, dim=-1) @ v
        x = x + self.proj(a.transpose(1, 2).reshape(b, t, WIDTH))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class GPT2(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCAB, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        for p in self.parameters():  # as GPT-2's; with PyTorch's own tables logits are so far apart that their gradients are denormal, and products slow
            if p.dim() == 2:
                nn.init.normal_(p, std=0.02)

    def forward(self, tokens, targets):
        t = tokens.shape[1]
        mask = torch.full((t, t), float("-inf")).triu(1)
        x = self.wte(tokens) + self.wpe(torch.arange(t))
        for block in self.blocks:
            x = block(x, mask)
        return F.cross_entropy((self.norm(x) @ self.wte.weight.T).view(-1, VOCAB), targets.view(-1))


torch.manual_seed(1)
model = GPT2()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1)
tokens, targets = (torch.randint(0, VOCAB, (BATCH, TOKENS)) for _ in range(2))
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
