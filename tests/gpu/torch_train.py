"""The losses of a training run by PyTorch, on the weights and samples that belay-train will take.

    torch_train.py FOLDER MODEL CONTEXT STEPS BATCH [--device cuda|cpu] [--fp32]

Writes FOLDER/model (Hugging Face's format, for train.from), FOLDER/tokens.bin (u16), FOLDER/losses.json, and FOLDER/job.yaml, which trains the same with
belay-train: the order of the samples is that of runtime/data/order.c with seed 1, the learning rate that of runtime/engine/schedule.c."""
import argparse
import contextlib
import json
import math
import os
import random
import sys

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bench"))
from torch_models import SIZES, Transformer, hf_save  # noqa: E402

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
SEED, LR, MIN_LR, DECAY, CLIP = 1, 1e-3, 1e-4, 0.1, 1.0


def mix64(x):
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def order_pick(n, seed, sample):
    key = (mix64((seed + GOLDEN) & MASK) + sample // n) & MASK
    key = mix64(key)
    half = 1
    while half < 31 and 1 << 2 * half < n:
        half += 1
    low = (1 << half) - 1
    x = sample % n
    while True:
        left, right = x >> half, x & low
        for i in range(6):
            left, right = right, left ^ (mix64((right + mix64((key + i * GOLDEN) & MASK)) & MASK) & low)
        x = left << half | right
        if x < n:
            return x


def write_text(path, vocab, count):
    """Tokens that a model can learn something of: each follows from the two before it, with some noise."""
    draw = random.Random(7)
    tokens = [1, 2]
    for _ in range(count - 2):
        tokens.append((tokens[-1] * 31 + tokens[-2] * 17 + 5) % min(vocab, 199) if draw.random() < 0.8 else draw.randrange(min(vocab, 199)))
    with open(path, "wb") as f:
        for t in tokens:
            f.write(t.to_bytes(2, "little"))
    return tokens


def warmup(steps):
    return min(10, steps // 2)


def rate(step, steps):
    first = warmup(steps)
    if step <= first:
        return LR * step / first
    return MIN_LR + (LR - MIN_LR) * 0.5 * (1 + math.cos(math.pi * (step - first) / (steps - first)))


def write_job(folder, name, a):
    arch, layers, hidden, heads, kv_heads, ffn, vocab, theta = SIZES[name]
    extra = f", kv_heads: {kv_heads}, rope_theta: {theta}" if arch == "llama" else ""
    with open(os.path.join(folder, "job.yaml"), "w") as f:
        f.write(f"""name: against-torch
train:
  model: {{arch: {arch}, layers: {layers}, hidden: {hidden}, heads: {heads}, ffn: {ffn}, vocab: {vocab}, context: {a.context}, tied: true{extra}}}
  from: model
  data: {{path: tokens.bin}}
  steps: {a.steps}
  batch: {{global: {a.batch}, micro: {a.batch}}}
  optimizer: {{lr: {LR}, min_lr: {MIN_LR}, warmup: {warmup(a.steps)}, schedule: cosine, weight_decay: {DECAY}, betas: [0.9, 0.95], clip: {CLIP}}}
  precision: {"fp32" if a.fp32 else "bf16"}
  seed: {SEED}
resources: {{device: {"gpu" if a.device == "cuda" else a.belay_device}}}
checkpoint: {{directory: ckpt, every: {a.steps}}}
""")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("folder")
    p.add_argument("model", choices=SIZES)
    p.add_argument("context", type=int)
    p.add_argument("steps", type=int)
    p.add_argument("batch", type=int)
    p.add_argument("--device", default="cuda")
    p.add_argument("--belay-device", default="cpu")
    p.add_argument("--fp32", action="store_true")
    a = p.parse_args()
    os.makedirs(a.folder, exist_ok=True)
    torch.manual_seed(3)
    model = Transformer(a.model, a.context)
    hf_save(model, os.path.join(a.folder, "model"))
    row = write_text(os.path.join(a.folder, "tokens.bin"), model.vocab, 64 * a.batch * a.context + 1)
    write_job(a.folder, a.model, a)
    n = (len(row) - 1) // a.context
    row = torch.tensor(row)
    model.to(a.device)
    optimizer = model.optimizer(LR, DECAY)
    losses = []
    for step in range(1, a.steps + 1):
        picks = [order_pick(n, SEED, (step - 1) * a.batch + i) * a.context for i in range(a.batch)]
        x = torch.stack([row[p:p + a.context] for p in picks]).to(a.device)
        y = torch.stack([row[p + 1:p + 1 + a.context] for p in picks]).to(a.device)
        for group in optimizer.param_groups:
            group["lr"] = rate(step, a.steps)
        optimizer.zero_grad(set_to_none=True)
        with contextlib.nullcontext() if a.fp32 else torch.autocast(a.device, dtype=torch.bfloat16):
            loss = model(x, y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        losses.append(loss.item())
    with open(os.path.join(a.folder, "losses.json"), "w") as f:
        json.dump(losses, f)


main()
