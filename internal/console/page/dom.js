// Helpers that create elements. Neither they nor their callers parse strings as
// markup: text from a model always stays text.

// el creates an element: el("p", {class: "x", onclick: f}, "text", other, [more]).
export function el(name, props, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(props || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "data") Object.assign(node.dataset, value);
    else node.setAttribute(key, value === true ? "" : String(value));
  }
  append(node, children);
  return node;
}

export function append(node, children) {
  for (const c of children.flat(Infinity)) {
    if (c === undefined || c === null || c === false || c === "") continue;
    node.append(c instanceof Node ? c : document.createTextNode(String(c)));
  }
  return node;
}

export function replace(node, ...children) {
  node.replaceChildren();
  return append(node, children);
}

// hides matches characters that are invisible or change how others are displayed:
// control, bidirectional, zero-width, tag, filler, variation selector and private use
// characters, and lone surrogates.
const hides = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2028\u2029\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ue000-\uf8ff]|[\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/gu;

const names = {
  0x00: "NUL", 0x07: "BEL", 0x08: "BS", 0x0d: "CR", 0x1b: "ESC", 0x7f: "DEL", 0xad: "SHY",
  0x200b: "ZWSP", 0x200c: "ZWNJ", 0x200d: "ZWJ", 0x200e: "LRM", 0x200f: "RLM", 0x2060: "WJ", 0xfeff: "BOM",
  0x202a: "LRE", 0x202b: "RLE", 0x202c: "PDF", 0x202d: "LRO", 0x202e: "RLO",
  0x2066: "LRI", 0x2067: "RLI", 0x2068: "FSI", 0x2069: "PDI",
};

// shown returns text as nodes, with such characters replaced by visible marks.
export function shown(text) {
  const out = [];
  let from = 0;
  text = String(text ?? "");
  for (const m of text.matchAll(hides)) {
    if (m.index > from) out.push(document.createTextNode(text.slice(from, m.index)));
    const code = m[0].codePointAt(0);
    const number = "U+" + code.toString(16).toUpperCase().padStart(4, "0");
    out.push(el("span", {class: "hidden-char", title: number}, names[code] || number));
    from = m.index + m[0].length;
  }
  out.push(document.createTextNode(text.slice(from)));
  return out;
}

// oneLine is shown for a single line.
export function oneLine(text, most = 300) {
  let flat = String(text ?? "").replace(/\r?\n/g, " ⏎ ");
  if (flat.length > most) flat = flat.slice(0, most) + "…";
  return shown(flat);
}

// code returns a block of preformatted text.
export function code(text, props) {
  return el("pre", {tabindex: 0, dir: "ltr", ...props}, shown(text));
}

// patch returns a diff or patch with coloured lines.
export function patch(text, props) {
  const box = el("pre", {class: "patch", tabindex: 0, dir: "ltr", "aria-label": "patch", ...props});
  for (const line of String(text).replace(/\n$/, "").split("\n")) {
    let kind = "";
    if (/^(\*\*\* |@@|diff |index |--- |\+\+\+ )/.test(line)) kind = "head";
    else if (line.startsWith("+")) kind = "add";
    else if (line.startsWith("-")) kind = "del";
    box.append(el("span", {class: "line " + kind}, shown(line), line ? "" : " "));
  }
  return box;
}

// isPatch reports whether text looks like a patch.
export function isPatch(text) {
  return /^\*\*\* (Begin|Add|Update|Delete) /m.test(text) || /^(---|\+\+\+) /m.test(text) || /^@@/m.test(text);
}

// lineDiff returns the lines of two texts as a diff.
export function lineDiff(before, after) {
  const a = before.split("\n"), b = after.split("\n");
  if (a.length * b.length > 4e6) {
    return [...a.map((l) => "-" + l), ...b.map((l) => "+" + l)].join("\n");
  }
  const w = b.length + 1;
  const t = new Uint16Array((a.length + 1) * w);
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      t[i * w + j] = a[i] === b[j] ? t[(i + 1) * w + j + 1] + 1 : Math.max(t[(i + 1) * w + j], t[i * w + j + 1]);
    }
  }
  const out = [];
  let i = 0, j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) { out.push(" " + a[i]); i++; j++; }
    else if (j >= b.length || (i < a.length && t[(i + 1) * w + j] >= t[i * w + j + 1])) out.push("-" + a[i++]);
    else out.push("+" + b[j++]);
  }
  return out.join("\n");
}

const plain = /^[A-Za-z0-9@%_+=:,./-]+$/;

// commandLine returns argv as a person would type it. A script passed to a shell is
// shown unquoted.
export function commandLine(argv) {
  if (argv.length === 3 && (argv[1] === "-c" || argv[1] === "-lc")) return argv[2];
  return argv.map((w) => (plain.test(w) ? w : "'" + w.replaceAll("'", "'\\''") + "'")).join(" ");
}

export function duration(ns) {
  const ms = ns / 1e6;
  if (ms < 1) return Math.round(ns / 1e3) + " µs";
  if (ms < 1000) return Math.round(ms) + " ms";
  if (ms < 60000) return (ms / 1000).toFixed(1) + " s";
  return Math.floor(ms / 60000) + " min " + Math.round((ms % 60000) / 1000) + " s";
}

export function left(ms) {
  const s = Math.max(0, Math.ceil(ms / 1000));
  if (s < 60) return s + " s";
  return Math.floor(s / 60) + " min" + (s < 600 ? " " + (s % 60) + " s" : "");
}

export function clock(time) {
  return new Date(time).toLocaleTimeString([], {hour12: false});
}
