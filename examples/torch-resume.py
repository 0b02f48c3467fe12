"""A PyTorch loop that Belay may stop or lose at any moment: what makes it so is marked [n]; docs/job-file.md explains it."""
import os, signal, subprocess, sys
import torch

def notify(*lines):
    subprocess.run(["belay", "notify", *lines], check=False)  # a program that cannot tell goes on all the same

model = torch.nn.Linear(64, 64)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
step, steps, every = 0, int(sys.argv[1]), int(sys.argv[2])

if path := os.environ.get("BELAY_RESUME_FROM"):                                         # [1] where it goes on
    state = torch.load(path)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    step = state["step"]

asked = []
signal.signal(signal.SIGUSR1, lambda *_: asked.append(True))                            # [2] "a checkpoint, please"
notify("CHECKPOINT_ON=SIGUSR1", f"STEPS={steps}")

def save():
    path = f"step-{step}.pt"
    with open(path + ".part", "wb") as f:                                               # [3] whole or not at all
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, f)
        f.flush()
        os.fsync(f.fileno())
    os.replace(path + ".part", path)
    notify(f"CHECKPOINT_DURABLE={step}", f"PATH={path}")                                # [4] it is safe, and here

print(f"begins at step {step}", flush=True)
while step < steps:
    loss = model(torch.randn(16, 64)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    step += 1
    notify(f"STEP={step}", f"LOSS={loss.item()}")
    if asked or step % every == 0:
        asked.clear()
        save()
