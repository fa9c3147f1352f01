// Code as colored spans, in one pass over the text. A table of languages; what is not in it stays plain.
import { h } from "../dom.js";

// Longer code is shown without color: nobody reads it here, and it must not stop the page.
const MAX_LENGTH = 60000;

const C_COMMENT = String.raw`\/\/[^\n]*|\/\*[\s\S]*?(?:\*\/|$)`;
const HASH_COMMENT = String.raw`#[^\n]*`;
const STRING = String.raw`"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?`;
const BACKTICK = String.raw`\x60(?:[^\x60\\]|\\.)*\x60?`;
const NUMBER = String.raw`\b\d[\w.]*`;
const words = (text) => new Set(text.split(" "));

const JS = words(
  "as async await break case catch class const continue default delete do else enum export extends false finally for from function get if implements import in instanceof interface let new null of private protected public readonly return set static super switch this throw true try type typeof undefined var void while yield",
);
const C = words(
  "abstract auto bool boolean break byte case catch char class const constexpr continue default delete do double else enum explicit export extends extern false final finally float for friend fun func go goto if implements import in inline int interface internal let long map mut namespace new nil null nullptr object operator override package private protected public range return sealed select short signed sizeof static string struct super switch synchronized template this throw throws true try type typedef typename union unsigned using val var virtual void volatile when where while",
);
const RUST = words(
  "as async await break const continue crate dyn else enum extern false fn for if impl in let loop match mod move mut pub ref return self Self static struct super trait true type union unsafe use where while",
);
const PYTHON = words(
  "and as assert async await break case class continue def del elif else except False finally for from global if import in is lambda match None nonlocal not or pass raise return self True try while with yield",
);
const RUBY = words(
  "alias and begin break case class def do else elsif end ensure false for if in module next nil not or redo rescue retry return self super then true unless until when while yield",
);
const SHELL = words(
  "case do done elif else esac export fi for function if in local return select set then until while cd echo exit source",
);
const SQL = words(
  "add all alter and as asc begin between by case column commit constraint create cross default delete desc distinct drop else end exists foreign from full group having if in index inner insert into is join key left like limit not null offset on or order outer primary references right rollback select set table then union unique update using values view when where with",
);

const LANGUAGES = {
  js: { comment: C_COMMENT, string: `${STRING}|${BACKTICK}`, words: JS },
  c: { comment: C_COMMENT, string: STRING, words: C },
  go: { comment: C_COMMENT, string: `${STRING}|${BACKTICK}`, words: C },
  rust: { comment: C_COMMENT, string: String.raw`"(?:[^"\\]|\\.)*"?|'(?:[^'\\\n]|\\.)'`, words: RUST },
  python: {
    comment: HASH_COMMENT,
    string: String.raw`[rbfuRBFU]{0,2}(?:"""[\s\S]*?(?:"""|$)|'''[\s\S]*?(?:'''|$)|${STRING})`,
    words: PYTHON,
  },
  ruby: { comment: HASH_COMMENT, string: STRING, words: RUBY },
  shell: { comment: String.raw`(?<![^\s;(])#[^\n]*`, string: STRING, words: SHELL },
  sql: { comment: String.raw`--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)`, string: STRING, words: SQL, folds: true },
  json: { comment: C_COMMENT, string: STRING, words: words("true false null") },
  yaml: { comment: HASH_COMMENT, string: STRING, words: words("true false null yes no on off") },
  css: { comment: String.raw`\/\*[\s\S]*?(?:\*\/|$)`, string: STRING, words: words("important media supports import from to") },
  html: { comment: String.raw`<!--[\s\S]*?(?:-->|$)`, string: STRING, words: new Set(), tags: true },
};

const NAMES = {
  js: "js javascript jsx mjs cjs ts tsx typescript",
  c: "c h cpp cc cxx hpp c++ java cs csharp kotlin kt kts swift scala dart php objc m proto groovy",
  go: "go golang",
  rust: "rust rs",
  python: "python py pyi python3 pycon starlark bzl",
  ruby: "ruby rb elixir ex exs",
  shell: "shell sh bash zsh fish console shellsession dockerfile makefile make mk",
  sql: "sql psql sqlite",
  json: "json jsonc json5 jsonl",
  yaml: "yaml yml toml ini cfg conf properties",
  css: "css scss less",
  html: "html xml svg vue astro xhtml",
};

const BY_NAME = new Map(Object.entries(NAMES).flatMap(([key, names]) => names.split(" ").map((name) => [name, key])));
const FILES = { Dockerfile: "shell", Makefile: "shell", "CMakeLists.txt": "shell", Gemfile: "ruby" };
const scanners = new Map();

function scanner(key) {
  let found = scanners.get(key);
  if (!found) {
    const { comment, string, tags } = LANGUAGES[key];
    const name = tags ? String.raw`<\/?[\w:-]+|\/?>` : String.raw`[A-Za-z_$][\w$]*`;
    found = new RegExp(`(${comment})|(${string})|(${NUMBER})|(${name})`, "g");
    scanners.set(key, found);
  }
  return found;
}

/** The language of a fence or of a file name; "" if it has none here. */
export function languageOf(name) {
  const base = name.slice(name.lastIndexOf("/") + 1);
  if (FILES[base]) return FILES[base];
  return BY_NAME.get(base.slice(base.lastIndexOf(".") + 1).toLowerCase()) || "";
}

/** The tokens of a text: [{text, type}], type "" or k, s, c, n, f. They join to the text. */
export function tokens(text, language) {
  if (!LANGUAGES[language] || text.length > MAX_LENGTH) return [{ text, type: "" }];
  const { words: known, folds, tags } = LANGUAGES[language];
  const scan = scanner(language);
  const found = [];
  let end = 0;
  scan.lastIndex = 0;
  for (let match = scan.exec(text); match; match = scan.exec(text)) {
    if (!match[0]) {
      scan.lastIndex += 1;
      continue;
    }
    let type = match[1] ? "c" : match[2] ? "s" : match[3] ? "n" : "";
    if (!type) {
      const word = folds ? match[4].toLowerCase() : match[4];
      if (tags || known.has(word)) type = "k";
      else if (text[scan.lastIndex] === "(") type = "f";
      else continue;
    }
    if (match.index > end) found.push({ text: text.slice(end, match.index), type: "" });
    found.push({ text: match[0], type });
    end = scan.lastIndex;
  }
  if (end < text.length) found.push({ text: text.slice(end), type: "" });
  return found;
}

/** Nodes for a code text. */
export function highlight(text, language) {
  return tokens(text, language).map((token) => (token.type ? h(`span.t${token.type}`, null, token.text) : token.text));
}
