"""Joins what tests/gpu/run.sh has found into OUT/results.json and prints it as one table.

    report.py OUT [emulated]"""
import datetime
import json
import os
import subprocess
import sys


def lines(out, name):
    path = os.path.join(out, name)
    if not os.path.exists(path):
        return []
    with open(path) as f:
        return [json.loads(line) for line in f if line.startswith("{")]


def device():
    try:
        query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
        return subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip().splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return "no GPU"


def models(ours, theirs):
    """One row a model: Belay, PyTorch, and their ratio."""
    by_model = {t["model"]: t for t in theirs}
    for b in ours:
        row = {"model": b["model"], "tokens_per_second": b["tokens_per_second"], "mfu": b.get("mfu"), "peak_gib": b["peak_bytes"] / 2**30}
        t = by_model.get(b["model"])
        if t:
            row.update(torch_tokens_per_second=t["tokens_per_second"], torch_peak_gib=t["peak_bytes"] / 2**30,
                       ratio=b["tokens_per_second"] / t["tokens_per_second"])
            if b.get("peak_flops"):
                row["torch_mfu"] = t["tokens_per_second"] * t["flops_per_token"] / b["peak_flops"]
        yield row


def show(value, form):
    return "-" if value is None else format(value, form)


def main():
    out, emulated = sys.argv[1], len(sys.argv) > 2 and sys.argv[2] == "emulated"
    results = {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
               "device": "emulated: nothing is measured" if emulated else device(),
               "sections": lines(out, "sections.jsonl"), "kernels": lines(out, "kernels.jsonl"),
               "models": list(models(lines(out, "belay.jsonl"), lines(out, "torch.jsonl")))}
    with open(os.path.join(out, "results.json"), "w") as f:
        json.dump(results, f, indent=1)
    print(f"\n{results['device']}, {results['date']}")
    for s in results["sections"]:
        print(f"  {s['section']:10} {'passed' if s['passed'] else 'FAILED':8} {s['seconds']:4d} s")
    if emulated:
        return
    if results["kernels"]:
        print(f"\n  {'kernel':34} {'ms':>9} {'GB/s':>8} {'TFLOP/s':>8} {'of ceiling':>10}")
    for k in results["kernels"]:
        tflops = k["gflop_s"] / 1e3 if k.get("gflop_s") else None
        print(f"  {k['kernel']:34} {k['ms']:9.3f} {show(k.get('gb_s'), '8.0f'):>8} {show(tflops, '8.1f'):>8} {show(k.get('share'), '10.2f'):>10}")
    if results["models"]:
        print(f"\n  {'model':12} {'tokens/s':>9} {'MFU':>6} {'GiB':>6}   {'PyTorch':>9} {'MFU':>6} {'GiB':>6}   ratio")
    for m in results["models"]:
        print(f"  {m['model']:12} {m['tokens_per_second']:9.0f} {show(m.get('mfu'), '6.3f'):>6} {m['peak_gib']:6.1f}   "
              f"{show(m.get('torch_tokens_per_second'), '9.0f'):>9} {show(m.get('torch_mfu'), '6.3f'):>6} {show(m.get('torch_peak_gib'), '6.1f'):>6}   "
              f"{show(m.get('ratio'), '.2f')}")


main()
