// Writes tokenizers in the forms that people have, from what npm packages carry: forms.cjs FOLDER
'use strict';
const fs = require('fs');
const path = require('path');
const folder = process.argv[2];

// js-tiktoken keeps ranks as lines of "! FIRST BASE64 BASE64 …".
function ranksOf(name) {
  const ranks = [];
  for (const line of require('js-tiktoken/ranks/' + name).bpe_ranks.split('\n').filter(Boolean)) {
    const [, first, ...tokens] = line.split(' ');
    tokens.forEach((token, i) => { ranks[Number(first) + i] = token; });
  }
  return ranks;
}

function writeRanks(file, ranks) {
  fs.writeFileSync(path.join(folder, file), ranks.map((token, rank) => `${token} ${rank}\n`).join(''));
}

// GPT-2's printable alphabet.
const printable = (() => {
  const itself = (b) => (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
  const table = [];
  let next = 256;
  for (let b = 0; b < 256; b++)
    table[b] = String.fromCharCode(itself(b) ? b : next++);
  return table;
})();
const print = (bytes) => Array.from(bytes, (b) => printable[b]).join('');

// The two tokens that a token was merged from: what is left of its bytes when only lower ranks merge.
function partsOf(token, rank, ranks) {
  let parts = Array.from(token, (b) => String.fromCharCode(b));
  while (parts.length > 2) {
    let best = -1, low = rank;
    for (let i = 0; i + 1 < parts.length; i++) {
      const r = ranks.get(parts[i] + parts[i + 1]);
      if (r !== undefined && r < low) { low = r; best = i; }
    }
    parts.splice(best, 2, parts[best] + parts[best + 1]);
  }
  return parts.map((s) => print(Buffer.from(s, 'latin1'))).join(' ');
}

function writeGpt2(ranks) {
  const tokens = ranks.map((token) => Buffer.from(token, 'base64'));
  const byBytes = new Map(tokens.map((token, rank) => [token.toString('latin1'), rank]));
  const merges = tokens.map((token, rank) => (token.length > 1 ? partsOf(token, rank, byBytes) + '\n' : '')).join('');
  const vocab = JSON.stringify({ ...Object.fromEntries(tokens.map((token, rank) => [print(token), rank])), '<|endoftext|>': 50256 });
  for (const [sub, mergesFile, vocabFile] of [['openai', 'vocab.bpe', 'encoder.json'], ['hf', 'merges.txt', 'vocab.json']]) {
    fs.mkdirSync(path.join(folder, sub));
    fs.writeFileSync(path.join(folder, sub, mergesFile), '#version: 0.2\n' + merges);
    fs.writeFileSync(path.join(folder, sub, vocabFile), vocab);
  }
}

// Llama 3's tokenizer.json as Meta publishes it (without its 256 names), and tokenizer.model.
function writeLlama3() {
  const { llama3Tokenizer: t } = require('llama3-tokenizer-js/bundle/commonjs-llama3-tokenizer-with-baked-data.cjs');
  const bytes = new Map(printable.map((c, b) => [c, b]));
  const tokens = t.vocabById.slice(0, 128000);
  const pattern = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
  const added = ['<|begin_of_text|>', '<|end_of_text|>'].map((content, i) => ({ id: 128000 + i, content, special: true }));
  const byteLevel = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: false };
  const split = { type: 'Split', pattern: { Regex: pattern }, behavior: 'Isolated', invert: false };
  const json = (merges) => JSON.stringify({
    version: '1.0', added_tokens: added, normalizer: null, pre_tokenizer: { type: 'Sequence', pretokenizers: [split, byteLevel] },
    post_processor: null, decoder: byteLevel,
    model: { type: 'BPE', dropout: null, ignore_merges: true, vocab: Object.fromEntries(tokens.map((s, i) => [s, i])), merges },
  });
  const merges = [...t.merges.keys()];
  fs.writeFileSync(path.join(folder, 'llama3.json'), json(merges));
  fs.writeFileSync(path.join(folder, 'llama3-pairs.json'), json(merges.map((m) => m.split(' '))));
  writeRanks('tokenizer.model', tokens.map((s) => Buffer.from(Array.from(s, (c) => bytes.get(c))).toString('base64')));
}

const gpt2 = ranksOf('gpt2');
writeRanks('gpt2.tiktoken', gpt2);
writeGpt2(gpt2);
writeRanks('cl100k_base.tiktoken', ranksOf('cl100k_base'));
writeLlama3();
