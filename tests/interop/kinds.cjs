// Compares the kinds of all code points with JavaScript's: encode --kinds | kinds.cjs
// The two may know different versions of Unicode: a code point that either does not know ("U" here, \p{Cn} there) is not compared.
'use strict';
const ours = require('fs').readFileSync(0, 'latin1');
const known = { 0x85: 'B', 0xfeff: 'S' }; // JavaScript's \s is not White_Space
let wrong = 0, compared = 0;
for (let c = 0; c < 0x110000; c++) {
  const s = String.fromCodePoint(c);
  if ((c >= 0xd800 && c < 0xe000) || ours[c] === 'U' || /\p{Cn}/u.test(s))
    continue;
  const kind = known[c] || (/\p{L}/u.test(s) ? 'L' : /\p{N}/u.test(s) ? 'N' : /[\r\n]/.test(s) ? 'R' : /\s/u.test(s) ? 'B' : 'S');
  compared++;
  if (ours[c] !== kind && wrong++ < 10)
    console.log(`U+${c.toString(16)} is ${kind} there, ${ours[c]} here`);
}
console.log(`${compared} code points compared, ${wrong} differ`);
process.exit(ours.length === 0x110000 && compared > 280000 && wrong === 0 ? 0 : 1);
