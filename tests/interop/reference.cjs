// GPT-2, Llama and Mixtral in double precision, straight from the papers, over a folder of Hugging Face's layout; ids are chosen greedily.
//   node reference.cjs FOLDER COUNT ID...     {"ids":[…],"logits":[[…],…]}, as llama.cjs
"use strict";
const { read } = require("./safetensors.cjs");

const dot = (a, at, b, n) => { let s = 0; for (let i = 0; i < n; i++) s += a[at + i] * b[i]; return s; };
const add = (a, b) => a.map((x, i) => x + b[i]);
const row = (t, r) => t.data.subarray(r * t.shape[1], (r + 1) * t.shape[1]);
// y = W x, W (out,in); GPT-2's are (in,out)
const linear = (t, x) => Float64Array.from({ length: t.shape[0] }, (_, o) => dot(t.data, o * x.length, x, x.length));
const conv1d = (t, b, x) => Float64Array.from({ length: t.shape[1] }, (_, o) => { let s = b.data[o]; for (let i = 0; i < x.length; i++) s += x[i] * t.data[i * t.shape[1] + o]; return s; });
const softmax = (x) => { const m = Math.max(...x), e = x.map((v) => Math.exp(v - m)), s = e.reduce((a, b) => a + b, 0); return e.map((v) => v / s); };
const silu = (x) => x / (1 + Math.exp(-x));
const gelu = (x) => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)));

function layerNorm(x, w, b, eps) {
  const mean = x.reduce((a, v) => a + v, 0) / x.length, variance = x.reduce((a, v) => a + (v - mean) ** 2, 0) / x.length;
  return x.map((v, i) => ((v - mean) / Math.sqrt(variance + eps)) * w.data[i] + b.data[i]);
}
function rmsNorm(x, w, eps) {
  const scale = 1 / Math.sqrt(x.reduce((a, v) => a + v * v, 0) / x.length + eps);
  return x.map((v, i) => v * scale * w.data[i]);
}
// Hugging Face's convention: dimension i of a head turns with i + D/2.
function rotate(x, position, D, theta) {
  const out = x.slice();
  for (let h = 0; h < x.length; h += D)
    for (let i = 0; i < D / 2; i++) {
      const angle = position * theta ** ((-2 * i) / D), c = Math.cos(angle), s = Math.sin(angle), a = x[h + i], b = x[h + i + D / 2];
      out[h + i] = a * c - b * s;
      out[h + i + D / 2] = b * c + a * s;
    }
  return out;
}
// One query over all keys and values so far.
function attend(q, keys, values, H, D) {
  const group = H / (keys[0].length / D), out = new Float64Array(H * D);
  for (let h = 0; h < H; h++) {
    const at = Math.floor(h / group) * D, part = q.subarray(h * D, (h + 1) * D);
    const p = softmax(keys.map((k) => dot(k, at, part, D) / Math.sqrt(D)));
    p.forEach((w, t) => { for (let i = 0; i < D; i++) out[h * D + i] += w * values[t][at + i]; });
  }
  return out;
}

function gpt2({ config: c, tensors }) {
  const t = (name) => tensors[name] || tensors[`transformer.${name}`], C = c.n_embd, H = c.n_head, eps = c.layer_norm_epsilon ?? 1e-5;
  const cache = Array.from({ length: c.n_layer }, () => [[], []]);
  return (id, position) => {
    let x = add(row(t("wte.weight"), id), row(t("wpe.weight"), position));
    cache.forEach(([keys, values], l) => {
      const p = (name) => t(`h.${l}.${name}`);
      const qkv = conv1d(p("attn.c_attn.weight"), p("attn.c_attn.bias"), layerNorm(x, p("ln_1.weight"), p("ln_1.bias"), eps));
      keys.push(qkv.slice(C, 2 * C));
      values.push(qkv.slice(2 * C));
      x = add(x, conv1d(p("attn.c_proj.weight"), p("attn.c_proj.bias"), attend(qkv.slice(0, C), keys, values, H, C / H)));
      const up = conv1d(p("mlp.c_fc.weight"), p("mlp.c_fc.bias"), layerNorm(x, p("ln_2.weight"), p("ln_2.bias"), eps)).map(gelu);
      x = add(x, conv1d(p("mlp.c_proj.weight"), p("mlp.c_proj.bias"), up));
    });
    return linear(tensors["lm_head.weight"] || t("wte.weight"), layerNorm(x, t("ln_f.weight"), t("ln_f.bias"), eps));
  };
}

const gated = (gate, up, down, x) => { const u = linear(up, x); return linear(down, linear(gate, x).map((g, i) => silu(g) * u[i])); };

function experts(p, x, k) {
  const weights = softmax(linear(p("block_sparse_moe.gate.weight"), x));
  const chosen = [...weights.keys()].sort((a, b) => weights[b] - weights[a]).slice(0, k), sum = chosen.reduce((a, e) => a + weights[e], 0);
  const out = new Float64Array(x.length);
  for (const e of chosen) {
    const w = (i) => p(`block_sparse_moe.experts.${e}.w${i}.weight`);
    gated(w(1), w(3), w(2), x).forEach((v, i) => { out[i] += (v * weights[e]) / sum; });
  }
  return out;
}

function llama({ config: c, tensors: t }) {
  const H = c.num_attention_heads, D = c.hidden_size / H, eps = c.rms_norm_eps;
  const cache = Array.from({ length: c.num_hidden_layers }, () => [[], []]);
  return (id, position) => {
    let x = row(t["model.embed_tokens.weight"], id);
    cache.forEach(([keys, values], l) => {
      const p = (name) => t[`model.layers.${l}.${name}`], n = rmsNorm(x, p("input_layernorm.weight"), eps);
      keys.push(rotate(linear(p("self_attn.k_proj.weight"), n), position, D, c.rope_theta));
      values.push(linear(p("self_attn.v_proj.weight"), n));
      const q = rotate(linear(p("self_attn.q_proj.weight"), n), position, D, c.rope_theta);
      x = add(x, linear(p("self_attn.o_proj.weight"), attend(q, keys, values, H, D)));
      const m = rmsNorm(x, p("post_attention_layernorm.weight"), eps);
      x = add(x, c.num_local_experts ? experts(p, m, c.num_experts_per_tok)
                                     : gated(p("mlp.gate_proj.weight"), p("mlp.up_proj.weight"), p("mlp.down_proj.weight"), m));
    });
    return linear(t["lm_head.weight"] || t["model.embed_tokens.weight"], rmsNorm(x, t["model.norm.weight"], eps));
  };
}

const [folder, count, ...prompt] = process.argv.slice(2);
const model = read(folder), forward = model.config.model_type === "gpt2" ? gpt2(model) : llama(model), out = { ids: [], logits: [] };
let position = 0, logits;
for (const id of prompt) logits = forward(Number(id), position++);
while (out.ids.length < Number(count)) {
  const id = logits.indexOf(Math.max(...logits));
  out.ids.push(id);
  out.logits.push([...logits]);
  logits = forward(id, position++);
}
console.log(JSON.stringify(out));
