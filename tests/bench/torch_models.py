"""GPT-2 and Llama in plain PyTorch, as their users write them: what Belay's speed and losses are compared with (tests/bench, tests/gpu).

Parameters are float; on a GPU the passes run under autocast in bf16. Attention is torch.nn.functional.scaled_dot_product_attention where this
PyTorch has it."""
import json
import math
import os
import struct

import torch
import torch.nn as nn
import torch.nn.functional as F

# name: (arch, layers, hidden, heads, kv_heads, ffn, vocab, theta). GPT-2: Radford et al. 2019, table 2. llama-1b: the sizes of Llama 3.2 1B's config.json.
SIZES = {
    "gpt2-124m": ("gpt2", 12, 768, 12, 12, 3072, 50257, 0),
    "gpt2-1558m": ("gpt2", 48, 1600, 25, 25, 6400, 50257, 0),
    "llama-1b": ("llama", 16, 2048, 32, 8, 8192, 128256, 500000.0),
    "gpt2-tiny": ("gpt2", 2, 64, 4, 4, 256, 256, 0),
    "llama-tiny": ("llama", 2, 64, 4, 2, 160, 256, 10000.0),
}


def attend(q, k, v):
    """Causal attention of (B, heads, T, size); k and v may have fewer heads."""
    groups = q.shape[1] // k.shape[1]
    if hasattr(F, "scaled_dot_product_attention"):
        if groups > 1:
            k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
    mask = torch.full((q.shape[2], k.shape[2]), float("-inf"), device=q.device).triu(1)
    return F.softmax((q @ k.transpose(-2, -1)) / math.sqrt(q.shape[3]) + mask, dim=-1) @ v


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        wide = x.float()
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)).type_as(x) * self.weight


class Block(nn.Module):
    def __init__(self, arch, hidden, heads, kv_heads, ffn):
        super().__init__()
        self.gpt2, self.heads, self.kv_heads, self.size = arch == "gpt2", heads, kv_heads, hidden // heads
        keys = kv_heads * self.size
        norm = nn.LayerNorm if self.gpt2 else RMSNorm
        self.norm1, self.norm2 = norm(hidden), norm(hidden)
        self.qkv, self.proj = nn.Linear(hidden, hidden + 2 * keys, bias=self.gpt2), nn.Linear(hidden, hidden, bias=self.gpt2)
        self.up = nn.Linear(hidden, ffn if self.gpt2 else 2 * ffn, bias=self.gpt2)  # Llama: gate and up
        self.down = nn.Linear(ffn, hidden, bias=self.gpt2)

    def turn(self, x, rope):
        cosine, sine = rope
        a, b = x.float().chunk(2, dim=-1)
        return torch.cat((a * cosine - b * sine, b * cosine + a * sine), dim=-1).type_as(x)

    def forward(self, x, rope):
        b, t, c = x.shape
        keys = self.kv_heads * self.size
        q, k, v = (y.view(b, t, -1, self.size).transpose(1, 2) for y in self.qkv(self.norm1(x)).split((c, keys, keys), dim=2))
        if rope is not None:
            q, k = self.turn(q, rope), self.turn(k, rope)
        x = x + self.proj(attend(q, k, v).transpose(1, 2).reshape(b, t, c))
        wide = self.up(self.norm2(x))
        if self.gpt2:
            return x + self.down(F.gelu(wide, approximate="tanh"))
        gate, up = wide.chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up)


class Transformer(nn.Module):
    def __init__(self, name, context):
        super().__init__()
        self.arch, self.layers, hidden, heads, kv_heads, ffn, self.vocab, self.theta = SIZES[name]
        self.context, self.size = context, hidden // heads
        self.wte = nn.Embedding(self.vocab, hidden)
        self.wpe = nn.Embedding(context, hidden) if self.arch == "gpt2" else None
        self.blocks = nn.ModuleList(Block(self.arch, hidden, heads, kv_heads, ffn) for _ in range(self.layers))
        self.norm = (nn.LayerNorm if self.arch == "gpt2" else RMSNorm)(hidden)
        for n, p in self.named_parameters():  # with PyTorch's own tables logits are so far apart that their gradients are denormal, and products slow
            if p.dim() == 2:
                nn.init.normal_(p, std=0.02 / (math.sqrt(2 * self.layers) if n.endswith(("proj.weight", "down.weight")) else 1))
            elif n.endswith("bias"):
                nn.init.zeros_(p)
        if self.arch == "llama":
            angle = torch.arange(context)[:, None] * self.theta ** (-torch.arange(0, self.size, 2) / self.size)
            self.register_buffer("cosine", angle.cos(), persistent=False)
            self.register_buffer("sine", angle.sin(), persistent=False)

    def forward(self, tokens, targets):
        t = tokens.shape[1]
        x, rope = self.wte(tokens), None
        if self.wpe is not None:
            x = x + self.wpe(torch.arange(t, device=tokens.device))
        else:
            rope = (self.cosine[:t], self.sine[:t])
        for block in self.blocks:
            x = block(x, rope)
        logits = F.linear(self.norm(x), self.wte.weight)  # tied
        return F.cross_entropy(logits.view(-1, self.vocab).float(), targets.reshape(-1))

    def flops_per_token(self):
        """Forward and backward, the PaLM count (arXiv 2204.02311, appendix B), as belay-train's MFU: positions are not counted."""
        n = sum(p.numel() for p in self.parameters()) - (self.wpe.weight.numel() if self.wpe is not None else 0)
        return 6 * n + 12 * self.layers * self.wte.weight.shape[1] * self.context

    def optimizer(self, lr, weight_decay, fused=False):
        """AdamW with decay on matrices and token table only, as belay-train."""
        decay = [p for n, p in self.named_parameters() if p.dim() == 2 and "wpe" not in n]
        rest = [p for n, p in self.named_parameters() if p.dim() != 2 or "wpe" in n]
        groups = [{"params": decay, "weight_decay": weight_decay}, {"params": rest, "weight_decay": 0.0}]
        return torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.95), eps=1e-8, **({"fused": True} if fused else {}))


# ---- Hugging Face's format, which belay-train reads with train.from ----


def hf_tensors(model):
    """(name, tensor) under the names of transformers; Conv1D keeps its matrices (in, out)."""
    if model.arch == "gpt2":
        yield "transformer.wte.weight", model.wte.weight
        yield "transformer.wpe.weight", model.wpe.weight
        for i, b in enumerate(model.blocks):
            h = f"transformer.h.{i}."
            for ours, theirs in (("norm1", "ln_1"), ("norm2", "ln_2")):
                yield f"{h}{theirs}.weight", getattr(b, ours).weight
                yield f"{h}{theirs}.bias", getattr(b, ours).bias
            for ours, theirs in (("qkv", "attn.c_attn"), ("proj", "attn.c_proj"), ("up", "mlp.c_fc"), ("down", "mlp.c_proj")):
                yield f"{h}{theirs}.weight", getattr(b, ours).weight.t().contiguous()
                yield f"{h}{theirs}.bias", getattr(b, ours).bias
        yield "transformer.ln_f.weight", model.norm.weight
        yield "transformer.ln_f.bias", model.norm.bias
        return
    yield "model.embed_tokens.weight", model.wte.weight
    for i, b in enumerate(model.blocks):
        h = f"model.layers.{i}."
        c, keys = b.heads * b.size, b.kv_heads * b.size
        yield f"{h}input_layernorm.weight", b.norm1.weight
        yield f"{h}post_attention_layernorm.weight", b.norm2.weight
        for name, part in zip("qkv", b.qkv.weight.split((c, keys, keys))):
            yield f"{h}self_attn.{name}_proj.weight", part
        yield f"{h}self_attn.o_proj.weight", b.proj.weight
        for name, part in zip(("gate", "up"), b.up.weight.chunk(2)):
            yield f"{h}mlp.{name}_proj.weight", part
        yield f"{h}mlp.down_proj.weight", b.down.weight
    yield "model.norm.weight", model.norm.weight


def hf_config(model):
    first = model.blocks[0]
    hidden, ffn = model.wte.weight.shape[1], first.down.weight.shape[1]
    if model.arch == "gpt2":
        return {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_layer": model.layers, "n_embd": hidden, "n_head": first.heads,
                "n_inner": ffn, "vocab_size": model.vocab, "n_positions": model.context, "n_ctx": model.context,
                "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5, "tie_word_embeddings": True}
    return {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_hidden_layers": model.layers, "hidden_size": hidden,
            "num_attention_heads": first.heads, "num_key_value_heads": first.kv_heads, "intermediate_size": ffn,
            "vocab_size": model.vocab, "max_position_embeddings": model.context, "rms_norm_eps": 1e-5, "rope_theta": model.theta,
            "hidden_act": "silu", "tie_word_embeddings": True, "attention_bias": False, "mlp_bias": False}


def hf_save(model, folder):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(hf_config(model), f)
    header, at, blobs = {}, 0, []
    for name, tensor in hf_tensors(model):
        blob = tensor.detach().float().cpu().contiguous().numpy().tobytes()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [at, at + len(blob)]}
        at += len(blob)
        blobs.append(blob)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(folder, "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for blob in blobs:
            f.write(blob)
