// What llama.cpp makes of a GGUF file: ids that it chooses greedily, with the logits of each step. The binding is the prebuilt one of
// node-llama-cpp, without the package around it.
//   node llama.cjs MODEL.gguf COUNT ID...     {"ids":[…],"logits":[[…],…]}
//   node llama.cjs MODEL.gguf --text FILE     {"ids":[…]}: how it cuts a text
"use strict";
const fs = require("fs");
const path = require("path");

const F32 = 0; // ggml's number; its default is F16
const name = `linux-${process.arch}`;
const folder = path.join(process.env.BELAY_INTEROP, "node_modules/@node-llama-cpp", name, "bins", name);
const binding = require(path.join(folder, "llama-addon.node"));

async function load(file) {
  binding.setLogger((level, text) => level <= 2 && process.stderr.write(text)); // errors
  binding.setLoggerLogLevel(2);
  binding.loadBackends();
  binding.loadBackends(folder);
  await binding.init();
  const model = new binding.AddonModel(file, { addonExports: binding, useMmap: true, checkTensors: true });
  if (!(await model.init())) throw new Error(`llama.cpp does not load ${file}`);
  return model;
}

// Logits of one place in the batch, in the order of ids, and the id that is chosen.
async function choose(context, sampler, place) {
  const [id, , , pairs] = await context.sampleToken(place, sampler, false, false, true);
  const logits = [];
  for (let i = 0; i < pairs.length; i += 2) logits[pairs[i]] = pairs[i + 1];
  return { id, logits };
}

async function generate(model, count, prompt) {
  const context = new binding.AddonContext(model, { contextSize: 256, batchSize: 256, sequences: 1, threads: 1, flashAttention: false,
                                                      kvCacheKeyType: F32, kvCacheValueType: F32 });
  if (!(await context.init())) throw new Error("llama.cpp has no context");
  const sampler = new binding.AddonSampler(model);
  sampler.applyConfig({ temperature: 0 });
  const out = { ids: [], logits: [] };
  for (let tokens = prompt, at = 0; out.ids.length < count; ) {
    context.initBatch(tokens.length);
    const [place] = context.addToBatch(0, at, Uint32Array.from(tokens), Uint32Array.of(tokens.length - 1));
    await context.decodeBatch();
    const { id, logits } = await choose(context, sampler, place);
    out.ids.push(id);
    out.logits.push(logits);
    at += tokens.length;
    tokens = [id];
  }
  return out;
}

async function main([file, what, ...rest]) {
  const model = await load(file);
  const out = what === "--text" ? { ids: Array.from(model.tokenize(fs.readFileSync(rest[0], "utf8"), false)) }
                                : await generate(model, Number(what), rest.map(Number));
  process.stdout.write(JSON.stringify(out) + "\n", () => process.exit(0)); // its threads would keep the process alive
}
main(process.argv.slice(2)).catch((e) => { console.error(String(e)); process.exit(1); });
