"""torch.save and torch.load of the tensors of a safetensors file, with fsync and from the disk, as bench_checkpoint.c does them.
usage: torch_save.py SHARD FILE; prints a line of names and numbers."""
import json
import os
import sys
import time

import torch

shard, path = sys.argv[1:]
with open(shard, "rb") as f:
    head = json.loads(f.read(int.from_bytes(f.read(8), "little")))
    start = f.tell()
    data = bytearray(os.path.getsize(shard) - start)
    f.readinto(data)
head.pop("__metadata__", None)
tensors = {}
for name, entry in head.items():
    begin, end = entry["data_offsets"]
    if end > begin:
        tensors[name] = torch.frombuffer(data, dtype=torch.float32, count=(end - begin) // 4, offset=begin).reshape(entry["shape"]).clone()
del data


def seconds(work):
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def save():
    with open(path, "wb") as out:
        torch.save(tensors, out)
        out.flush()
        os.fsync(out.fileno())


written = seconds(save)
fd = os.open(path, os.O_RDONLY)
os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
os.close(fd)
tensors = None
cold = seconds(lambda: torch.load(path))
warm = seconds(lambda: torch.load(path))
print(f"bytes {os.path.getsize(path)} cold {cold:.4f} warm {warm:.4f} write {written:.4f}")
