// A text from a seed: files of this machine, and words, numbers, symbols and blanks of many scripts, mixed. `more` adds the characters of
// which JavaScript's \s and Unicode's White_Space say different things, and the long s, which only Unicode's rules fold to s.
'use strict';
const fs = require('fs');
const path = require('path');

// mulberry32: small, and the same everywhere
function draws(seed) {
  let a = seed >>> 0;
  return (below) => {
    a = (a + 0x6d2b79f5) >>> 0;
    let t = Math.imul(a ^ (a >>> 15), 1 | a);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) % below;
  };
}

// letters of scripts; with a third number, only every so many code points
const LETTERS = [
  [0x61, 0x7a], [0x41, 0x5a], [0x61, 0x7a], [0xc0, 0xd6], [0xe0, 0xf6], [0x100, 0x17e], [0x1e00, 0x1eff], [0x250, 0x2af], [0x3b1, 0x3c9],
  [0x410, 0x44f], [0x531, 0x556], [0x5d0, 0x5ea], [0x620, 0x64a], [0x904, 0x939], [0x985, 0x98c], [0xb85, 0xb8a], [0xe01, 0xe30],
  [0xe81, 0xe82], [0xf40, 0xf47], [0x10d0, 0x10fa], [0x1200, 0x1248], [0x13a0, 0x13f4], [0x1780, 0x17b3], [0x1820, 0x1877],
  [0x3041, 0x3096], [0x30a1, 0x30fa], [0x4e00, 0x9fa5], [0xac00, 0xd7a3], [0xff21, 0xff3a], [0x10330, 0x10340], [0x12000, 0x12390],
  [0x1d400, 0x1d454], [0x20000, 0x2a6d6], [0x2c60, 0x2c7e], [0xa000, 0xa48c],
];
const NUMBERS = [[0x30, 0x39], [0x30, 0x39], [0x660, 0x669], [0x966, 0x96f], [0xb2, 0xb3], [0xbc, 0xbe], [0x2150, 0x2188], [0x2460, 0x249b],
  [0x3021, 0x3029], [0xff10, 0xff19], [0x1d7ce, 0x1d7ff], [0x10107, 0x10133]];
const SYMBOLS = [[0x21, 0x2f], [0x3a, 0x40], [0x5b, 0x60], [0x7b, 0x7e], [0xa1, 0xa9], [0x2010, 0x2027], [0x20a0, 0x20bf], [0x2190, 0x21ff],
  [0x2200, 0x22ff], [0x2500, 0x257f], [0x2600, 0x26ff], [0x3001, 0x3003], [0x1f300, 0x1f5ff], [0x1f600, 0x1f64f], [0x1f680, 0x1f6c5]];
const MARKS = [[0x300, 0x36f], [0x483, 0x487], [0x5b0, 0x5bd], [0x64b, 0x652], [0x93e, 0x94c], [0xe34, 0xe3a], [0x20d0, 0x20dc], [0xfe00, 0xfe0f]];
const CONTROLS = [[0x00, 0x08], [0x0e, 0x1f], [0x7f, 0x84], [0x86, 0x9f], [0xad, 0xad], [0x200b, 0x200f], [0x2060, 0x2064], [0xe000, 0xe010],
  [0xfff9, 0xfffd]];
const BLANKS = [0x20, 0x20, 0x20, 0x09, 0x0a, 0x0a, 0x0d, 0x0b, 0x0c, 0xa0, 0x1680, 0x2000, 0x2003, 0x2009, 0x200a, 0x2028, 0x2029, 0x202f,
  0x205f, 0x3000];
const EMOJI = ['\u{1f468}\u200d\u{1f469}\u200d\u{1f467}', '\u{1f44d}\u{1f3fd}', '\u{1f1e9}\u{1f1ea}', '\u2764\ufe0f', '1\ufe0f\u20e3',
  '\u{1f3f4}\u{e0067}\u{e0062}\u{e007f}', '\u{1f926}\u{1f3fc}\u200d\u2642\ufe0f'];
const TAILS = ['s', 't', 're', 've', 'm', 'll', 'd', 'S', 'T', 'Re', 'vE', 'M', 'LL', 'D', 'x', 'l', 'r', ''];
const WORDS = ('the of and to in is that for it was function return static const struct if else while import class def print let var null ' +
  'parallel tokenizer attention gradient checkpoint').split(' ');

function generator(seed, more) {
  const draw = draws(seed);
  const from = (list) => list[draw(list.length)];
  const char = (ranges) => { const [a, b] = from(ranges); return String.fromCodePoint(a + draw(b - a + 1)); };
  const many = (most, make) => Array.from({ length: 1 + draw(most) }, make).join('');
  const script = () => { const range = [from(LETTERS)]; return many(9, () => char(range)); };
  const broken = () => String.fromCharCode(0xd800 + draw(0x800)); // half of a pair: JavaScript can hold it, UTF-8 cannot
  const kinds = [
    () => from(WORDS), () => from(WORDS) + ' ' + from(WORDS), script, script, script,
    () => many(8, () => char([from(NUMBERS)])), () => String(draw(1e9)), () => many(4, () => char(SYMBOLS)),
    () => from(['=', '-', '*', '#', '/', '.', '_']).repeat(1 + draw(40)), () => many(6, () => String.fromCodePoint(from(BLANKS))),
    () => ' '.repeat(1 + draw(20)), () => '\n'.repeat(1 + draw(4)), () => '\r\n', () => '\t'.repeat(1 + draw(5)),
    () => from(WORDS) + from(["'", "'", '\u2019']) + from(TAILS), () => char(LETTERS) + many(3, () => char(MARKS)), () => char(CONTROLS),
    () => from(EMOJI), broken, () => `${from(WORDS)}(${from(WORDS)}[${draw(100)}], "${script()}");\n`,
    () => '<|endoftext|>', () => many(60, () => from(['a', 'b', 'ab', '1'])),
  ];
  if (more)
    kinds.push(() => from(['\x85', '\ufeff', '\x85\n ', ' \ufeff', "'\u017f"]), () => '\u017f' + script());
  return (length) => {
    let text = '';
    while (text.length < length)
      text += from(kinds)() + (draw(2) ? ' ' : '');
    return text;
  };
}

// Licences and this program's own sources, at most `most` bytes of each.
function files(root, most) {
  const read = (file) => { try { return fs.readFileSync(file).toString('utf8').slice(0, most); } catch { return ''; } };
  const list = (dir, end) => fs.readdirSync(dir).sort().filter((f) => f.endsWith(end)).map((f) => path.join(dir, f));
  const names = [...list('/usr/share/common-licenses', ''), ...list(root, '.md'), ...list(root, 'Makefile')];
  for (const dir of ['common', 'schema', 'daemon', 'docs', 'tools', 'runtime/text', 'tests/interop'])
    names.push(...list(path.join(root, dir), ''));
  return names.map(read).join('\n');
}

// At least a megabyte, as JavaScript holds it.
exports.corpus = (root, seed, more) => {
  const text = generator(seed, more);
  const long = generator(seed + 1, false)(1500).replace(/[^a-z]/g, ''); // one long piece
  return text(300000) + ` ${long} ` + files(root, 20000) + text(300000);
};
