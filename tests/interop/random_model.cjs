// Small models of random weights in Hugging Face's layout, the same each time: node random_model.cjs FOLDER gpt2|llama|tied|mixtral [VOCAB]
"use strict";
const { write } = require("./safetensors.cjs");

let state = 12345;
function uniform() {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return (state + 0.5) / 4294967296;
}
const normal = () => Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform());
function random(deviation, ...shape) {
  const count = shape.reduce((a, b) => a * b, 1);
  return { shape, data: Float32Array.from({ length: count }, () => deviation * normal()) };
}
const matrix = (...shape) => random(0.3, ...shape);
const bias = (n) => random(0.3, n);
function gain(n) {
  const t = random(0.1, n);
  t.data = t.data.map((x) => 1 + x);
  return t;
}

function gpt2(V = 256) {
  const C = 32, F = 96, T = 64, L = 2, tensors = {};
  tensors["wte.weight"] = matrix(V, C);
  tensors["wpe.weight"] = matrix(T, C);
  for (let l = 0; l < L; l++)
    Object.assign(tensors, Object.fromEntries(Object.entries({
      "ln_1.weight": gain(C), "ln_1.bias": bias(C), "attn.c_attn.weight": matrix(C, 3 * C), "attn.c_attn.bias": bias(3 * C),
      "attn.c_proj.weight": matrix(C, C), "attn.c_proj.bias": bias(C), "ln_2.weight": gain(C), "ln_2.bias": bias(C),
      "mlp.c_fc.weight": matrix(C, F), "mlp.c_fc.bias": bias(F), "mlp.c_proj.weight": matrix(F, C), "mlp.c_proj.bias": bias(C),
    }).map(([name, t]) => [`h.${l}.${name}`, t])));
  tensors["ln_f.weight"] = gain(C);
  tensors["ln_f.bias"] = bias(C);
  const config = { model_type: "gpt2", vocab_size: V, n_positions: T, n_embd: C, n_layer: L, n_head: 4, n_inner: F, activation_function: "gelu_new" };
  return [config, tensors];
}

function feedForward(C, F, experts) {
  if (!experts) return { "mlp.gate_proj.weight": matrix(F, C), "mlp.up_proj.weight": matrix(F, C), "mlp.down_proj.weight": matrix(C, F) };
  const out = { "block_sparse_moe.gate.weight": matrix(experts, C) };
  for (let e = 0; e < experts; e++)
    Object.assign(out, { [`block_sparse_moe.experts.${e}.w1.weight`]: matrix(F, C), [`block_sparse_moe.experts.${e}.w3.weight`]: matrix(F, C),
                         [`block_sparse_moe.experts.${e}.w2.weight`]: matrix(C, F) });
  return out;
}

function llama(tied, experts, kvHeads, theta, V = 256) {
  const C = 32, F = 48, T = 64, L = 2, H = 4, KV = (C / H) * kvHeads, tensors = {};
  tensors["model.embed_tokens.weight"] = matrix(V, C);
  for (let l = 0; l < L; l++)
    Object.assign(tensors, Object.fromEntries(Object.entries({
      "input_layernorm.weight": gain(C), "self_attn.q_proj.weight": matrix(C, C), "self_attn.k_proj.weight": matrix(KV, C),
      "self_attn.v_proj.weight": matrix(KV, C), "self_attn.o_proj.weight": matrix(C, C), "post_attention_layernorm.weight": gain(C),
      ...feedForward(C, F, experts),
    }).map(([name, t]) => [`model.layers.${l}.${name}`, t])));
  tensors["model.norm.weight"] = gain(C);
  if (!tied) tensors["lm_head.weight"] = matrix(V, C);
  const config = { model_type: experts ? "mixtral" : "llama", vocab_size: V, max_position_embeddings: T, hidden_size: C, intermediate_size: F, num_hidden_layers: L,
                   num_attention_heads: H, num_key_value_heads: kvHeads, rms_norm_eps: 1e-5, rope_theta: theta, hidden_act: "silu", tie_word_embeddings: tied };
  return [experts ? { ...config, num_local_experts: experts, num_experts_per_tok: 2 } : config, tensors];
}

const kinds = { gpt2, llama: (V) => llama(false, 0, 2, 500000, V), tied: (V) => llama(true, 0, 4, 10000, V), mixtral: (V) => llama(false, 4, 2, 1000000, V) };
const [folder, kind, vocab] = process.argv.slice(2);
write(folder, ...kinds[kind](vocab && Number(vocab)));
