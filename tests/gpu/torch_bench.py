"""Training steps by PyTorch as its users run them: bf16 autocast over float parameters, scaled_dot_product_attention, fused AdamW, torch.compile.

    torch_bench.py MODEL BATCH CONTEXT [--steps N] [--device cuda|cpu] [--eager]

Prints one line of JSON: seconds for a step (median), tokens per second, FLOPs of the model per token, peak bytes of the device."""
import argparse
import json
import os
import sys
import time

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bench"))
from torch_models import SIZES, Transformer  # noqa: E402


def main():
    p = argparse.ArgumentParser()
    p.add_argument("model", choices=SIZES)
    p.add_argument("batch", type=int)
    p.add_argument("context", type=int)
    p.add_argument("--steps", type=int, default=10)
    p.add_argument("--device", default="cuda")
    p.add_argument("--eager", action="store_true")
    a = p.parse_args()
    gpu = a.device == "cuda"
    torch.manual_seed(1)
    with torch.device(a.device) if hasattr(torch, "set_default_device") else torch.no_grad():
        model = Transformer(a.model, a.context)
    model.to(a.device)
    flops = model.flops_per_token()
    optimizer = model.optimizer(3e-4, 0.1, fused=gpu)
    run = model if a.eager or not hasattr(torch, "compile") else torch.compile(model)
    x, y = (torch.randint(0, model.vocab, (a.batch, a.context), device=a.device) for _ in range(2))

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(a.device, dtype=torch.bfloat16):
            loss = run(x, y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()  # waits for the device, as a run that logs its loss does

    for _ in range(3):
        step()
    if gpu:
        torch.cuda.synchronize()
    times = []
    for _ in range(a.steps):
        begin = time.perf_counter()
        step()
        times.append(time.perf_counter() - begin)
    seconds = sorted(times)[len(times) // 2]
    print(json.dumps({"torch": torch.__version__, "model": a.model, "compiled": run is not model, "step_s": seconds,
                      "tokens_per_second": a.batch * a.context / seconds, "flops_per_token": flops,
                      "peak_bytes": torch.cuda.max_memory_allocated() if gpu else 0}))


main()
