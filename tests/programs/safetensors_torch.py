"""Safetensors by PyTorch alone, to compare with.
  safetensors_torch.py write FOLDER TYPE          a small Llama in Hugging Face's layout, numbers of every size among its weights
  safetensors_torch.py check FOLDER OTHER TYPE    does OTHER hold FOLDER's tensors as PyTorch rounds them to TYPE, bit for bit?"""
import json
import os
import struct
import sys

import torch

TYPES = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16, "F64": torch.float64}
BITS = {4: torch.int32, 2: torch.int16, 8: torch.int64}


def read(folder):
    with open(os.path.join(folder, "model.safetensors"), "rb") as f:
        length = struct.unpack("<Q", f.read(8))[0]
        header, data = json.loads(f.read(length)), f.read()
    out = {}
    for name, t in header.items():
        if name != "__metadata__":
            begin, end = t["data_offsets"]
            out[name] = torch.frombuffer(bytearray(data[begin:end]), dtype=TYPES[t["dtype"]]).reshape(t["shape"])
    return out


def write(folder, config, tensors, name_of_type):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, t in tensors.items():
        raw = bytes(t.contiguous().view(BITS[t.element_size()]).numpy().tobytes())
        header[name] = {"dtype": name_of_type, "shape": list(t.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    os.mkdir(folder)
    with open(os.path.join(folder, "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(config, f)


def weights():
    """Numbers over the range of each type, its subnormals, ties between neighbours, infinities."""
    torch.manual_seed(3)
    shapes = {"model.embed_tokens.weight": (256, 64), "model.norm.weight": (64,), "lm_head.weight": (256, 64)}
    layer = {"input_layernorm": (64,), "post_attention_layernorm": (64,), "self_attn.q_proj": (64, 64), "self_attn.k_proj": (32, 64),
             "self_attn.v_proj": (32, 64), "self_attn.o_proj": (64, 64), "mlp.gate_proj": (96, 64), "mlp.up_proj": (96, 64), "mlp.down_proj": (64, 96)}
    shapes.update({f"model.layers.0.{name}.weight": shape for name, shape in layer.items()})
    out = {name: torch.randn(shape) * 10 ** torch.empty(shape).uniform_(-9, 6) for name, shape in shapes.items()}
    ties = out["lm_head.weight"].view(torch.int32)
    ties[:64] = ties[:64] & ~0x1FFF | 0x1000  # halves of an F16's last place
    ties[64:128] = ties[64:128] & ~0xFFFF | 0x8000  # of a BF16's
    out["lm_head.weight"][-1, :4] = torch.tensor([float("inf"), -float("inf"), -0.0, 1e-42])
    return out


CONFIG = {"model_type": "llama", "vocab_size": 256, "max_position_embeddings": 16, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 1,
          "num_attention_heads": 4, "num_key_value_heads": 2, "rms_norm_eps": 1e-5}


def main(what, folder, *rest):
    if what == "write":
        write(folder, CONFIG, {name: t.to(TYPES[rest[0]]) for name, t in weights().items()}, rest[0])
        return 0
    one, other, kind = read(folder), read(rest[0]), TYPES[rest[1]]
    bits = lambda t: t.view(BITS[t.element_size()])
    differ = [name for name in one if name not in other or other[name].dtype != kind or not torch.equal(bits(one[name].float().to(kind)), bits(other[name]))]
    print(f"{len(one)} tensors, {len(differ)} differ: {differ}" if differ or len(one) != len(other) else f"{len(one)} tensors alike")
    return 1 if differ or len(one) != len(other) else 0


sys.exit(main(*sys.argv[1:]))
