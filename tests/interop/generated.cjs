// node generated.cjs LIMIT OURS.json LLAMA.json: did belay-train generate (--json --logprobs) choose the ids that llama.cpp chose, with log
// probabilities within LIMIT?
"use strict";
const fs = require("fs");
const [limit, ours, theirs] = [Number(process.argv[2]), ...process.argv.slice(3).map((f) => JSON.parse(fs.readFileSync(f)))];
const logProbability = (logits, id) => { const m = Math.max(...logits); return logits[id] - m - Math.log(logits.reduce((s, x) => s + Math.exp(x - m), 0)); };
const same = JSON.stringify(ours.tokens) === JSON.stringify(theirs.ids) && theirs.ids.length > 0;
const difference = Math.max(...theirs.ids.map((id, i) => Math.abs(logProbability(theirs.logits[i], id) - ours.log_probabilities[i])));
console.log(`${theirs.ids.length} ids ${same ? "alike" : `differ: ${ours.tokens} here, ${theirs.ids} in llama.cpp`}; largest difference of a log probability ${difference.toExponential(1)}`);
process.exit(same && difference <= limit ? 0 : 1);
