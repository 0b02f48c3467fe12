// node same_weights.cjs A B: do two folders of Hugging Face's layout hold the same tensors, bit for bit?
"use strict";
const { read } = require("./safetensors.cjs");
const [a, b] = process.argv.slice(2).map((f) => read(f).tensors);
const differ = [...new Set([...Object.keys(a), ...Object.keys(b)])].filter((name) => JSON.stringify(a[name]?.shape) !== JSON.stringify(b[name]?.shape) ||
                                                                       !a[name].data.every((x, i) => Object.is(x, b[name].data[i])));
console.log(`${Object.keys(a).length} tensors${differ.length ? `, these differ: ${differ}` : ""}`);
process.exit(differ.length || !Object.keys(a).length ? 1 : 0);
