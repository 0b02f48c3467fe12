"""A torch.distributed program that knows nothing of Belay: env://, gloo, all_reduce. gloo.py SIZE"""
import sys

import torch
import torch.distributed as dist

dist.init_process_group("gloo", init_method="env://")
rank, size = dist.get_rank(), dist.get_world_size()
t = torch.tensor([float(rank + 1)])
dist.all_reduce(t)
ok = t.item() == size * (size + 1) / 2 and size == int(sys.argv[1])
print(f"gloo rank {rank} of {size} sum {t.item():g} {'ok' if ok else 'WRONG'}", flush=True)
dist.barrier()
dist.destroy_process_group()
sys.exit(0 if ok else 1)
