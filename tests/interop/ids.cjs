// Compares ids: ids.cjs MODE ENCODE ROOT TOKENIZER...
//   gpt2, cl100k_base, llama3     with js-tiktoken's and llama3-tokenizer-js' own, over the corpus
//   gpt2+, cl100k_base+           the same over the corpus with the characters in which JavaScript's rules differ, with Unicode's rules
//   hf                            each TOKENIZER is a tokenizer.json: with @huggingface/tokenizers, over a part of the corpus (it is slow)
// ENCODE is build/tests/programs/encode. Prints a line for each tokenizer, and where the first difference is.
'use strict';
const fs = require('fs');
const { execFileSync } = require('child_process');
const { corpus } = require('./corpus.cjs');
const [, , mode, encode, root, ...tokenizers] = process.argv;

function ours(tokenizer, text) {
  const out = execFileSync(encode, [tokenizer], { input: Buffer.from(text), maxBuffer: 1 << 28 });
  return new Int32Array(out.buffer.slice(out.byteOffset, out.byteOffset + out.length));
}

// Unicode's White_Space in place of JavaScript's \s, and the long s among the contractions.
function unicodeRules(pattern) {
  const white = '\\t-\\r \\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000';
  return pattern.replaceAll('[^\\s', `[^${white}`).replaceAll('\\s', `[${white}]`).replaceAll('\\S', `[^${white}]`)
    .replace("('s|", "('s|'\u017f|");
}

function theirs(tokenizer, text) {
  if (mode === 'llama3') {
    const { llama3Tokenizer } = require('llama3-tokenizer-js/bundle/commonjs-llama3-tokenizer-with-baked-data.cjs');
    return llama3Tokenizer.encode(text, { bos: false, eos: false, specialTokenRegex: /(?!)/gu });
  }
  if (mode === 'hf') {
    const { Tokenizer } = require('@huggingface/tokenizers');
    const t = new Tokenizer(JSON.parse(fs.readFileSync(tokenizer, 'utf8')), {});
    return t.encode(text, { add_special_tokens: false }).ids;
  }
  const { Tiktoken } = require('js-tiktoken/lite');
  const ranks = require('js-tiktoken/ranks/' + mode.replace('+', ''));
  const rules = mode.endsWith('+') ? unicodeRules(ranks.pat_str) : ranks.pat_str;
  return new Tiktoken({ ...ranks, pat_str: rules }).encode(text, [], []);
}

function same(want, got) {
  let i = 0;
  while (i < want.length && i < got.length && want[i] === got[i])
    i++;
  if (i === want.length && i === got.length)
    return true;
  console.log(`the first difference is at token ${i}: there ${want.slice(i, i + 6)}, here ${Array.from(got.slice(i, i + 6))}`);
  return false;
}

const seed = 20;
let text = corpus(root, seed, mode.endsWith('+'));
if (!mode.endsWith('+'))
  text = text.replace(/[\x85\ufeff\u017f]/g, '');
if (mode === 'hf')
  text = text.slice(0, 600000).replaceAll('<|', '< |'); // it would find special tokens in text
let want = null, failed = tokenizers.length === 0;
for (const tokenizer of tokenizers) {
  if (mode === 'hf' || !want)
    want = theirs(tokenizer, text);
  const got = ours(tokenizer, text);
  console.log(`${mode}: ${Buffer.byteLength(text)} bytes, ${want.length} tokens there, ${got.length} here (${tokenizer.replace(/.*\//, '')})`);
  failed = !same(want, got) || failed;
}
process.exit(failed ? 1 : 0);
