// Reads and writes folders of Hugging Face's layout: config.json and safetensors.
"use strict";
const fs = require("fs");
const path = require("path");

const widths = { F32: 4, BF16: 2, F16: 2 };
const f32 = new Float32Array(1);
const u32 = new Uint32Array(f32.buffer);

function halfToNumber(bits) {
  const sign = bits & 0x8000 ? -1 : 1, exponent = (bits >> 10) & 31, rest = bits & 1023;
  if (exponent === 31) return rest ? NaN : sign * Infinity;
  return sign * (exponent === 0 ? rest * 2 ** -24 : (1024 + rest) * 2 ** (exponent - 25));
}

function number(bytes, type, i) {
  if (type === "F32") return bytes.readFloatLE(4 * i);
  const bits = bytes.readUInt16LE(2 * i);
  if (type === "F16") return halfToNumber(bits);
  u32[0] = bits << 16;
  return f32[0];
}

// {name: {shape, data: Float64Array}}
function readFile(file) {
  const bytes = fs.readFileSync(file), length = Number(bytes.readBigUInt64LE(0)), out = {};
  for (const [name, t] of Object.entries(JSON.parse(bytes.subarray(8, 8 + length).toString()))) {
    if (name === "__metadata__") continue;
    const [from, to] = t.data_offsets, part = bytes.subarray(8 + length + from, 8 + length + to);
    out[name] = { shape: t.shape, data: Float64Array.from({ length: (to - from) / widths[t.dtype] }, (_, i) => number(part, t.dtype, i)) };
  }
  return out;
}

function read(folder) {
  const config = JSON.parse(fs.readFileSync(path.join(folder, "config.json"))), index = path.join(folder, "model.safetensors.index.json");
  const files = fs.existsSync(index) ? [...new Set(Object.values(JSON.parse(fs.readFileSync(index)).weight_map))] : ["model.safetensors"];
  return { config, tensors: Object.assign({}, ...files.map((f) => readFile(path.join(folder, f)))) };
}

// tensors: {name: {shape, data: Float32Array}}
function write(folder, config, tensors) {
  const header = { __metadata__: { format: "pt" } };
  let at = 0;
  for (const [name, t] of Object.entries(tensors)) header[name] = { dtype: "F32", shape: t.shape, data_offsets: [at, (at += t.data.byteLength)] };
  const text = Buffer.from(JSON.stringify(header)), length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  fs.mkdirSync(folder, { recursive: true });
  fs.writeFileSync(path.join(folder, "model.safetensors"), Buffer.concat([length, text, ...Object.values(tensors).map((t) => Buffer.from(t.data.buffer))]));
  fs.writeFileSync(path.join(folder, "config.json"), JSON.stringify(config));
}

module.exports = { read, write };
