// node compare.cjs LIMIT A.json B.json: the same ids, and logits that differ by at most LIMIT of the largest?
"use strict";
const fs = require("fs");
const [limit, a, b] = [Number(process.argv[2]), ...process.argv.slice(3).map((f) => JSON.parse(fs.readFileSync(f)))];
let largest = 0, difference = 0, numbers = 0;
(a.logits || []).forEach((step, s) => step.forEach((x, i) => {
  largest = Math.max(largest, Math.abs(x));
  difference = Math.max(difference, Math.abs(x - b.logits[s][i]));
  numbers++;
}));
const same = JSON.stringify(a.ids) === JSON.stringify(b.ids) && a.ids.length > 0, close = !(difference > limit * largest);
console.log(`${a.ids.length} ids ${same ? "alike" : `differ: ${a.ids} and ${b.ids}`}; ${numbers} logits, largest difference ${(difference / (largest || 1)).toExponential(1)}`);
process.exit(same && close && (!a.logits || numbers > 0) ? 0 : 1);
