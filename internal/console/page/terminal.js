// A display-only terminal: enough of VT100 and xterm to make a program's output
// readable. Unknown sequences are ignored. It sends no replies, sets no title and
// opens no links.
import {el, shown} from "./dom.js";

const rows = 24, cols = 80, keep = 4000; // lines

const sequence = /\x1b(?:\[([0-9;:?<=>!]*)[ -/]*([@-~])|\][^\x07\x1b]*(?:\x07|\x1b\\)|[PX^_][^\x1b]*\x1b\\|[ -/]+[0-~]|([0-Z=>c-~\\]))/y;
const unfinished = /\x1b(?:\[[0-9;:?<=>! -/]*|\][^\x07\x1b]*\x1b?|[PX^_][^\x1b]*\x1b?|[ -/]*)?$/;
const longest = 4096; // of an unfinished sequence

export class Terminal {
  constructor() {
    this.rest = "";
    this.main = this.screen = this.fresh();
    this.style = "";
  }

  // A screen is a list of lines, of which the last 24 are addressable, and a cursor.
  fresh() { return {lines: [[]], row: 0, col: 0, top: 0, bottom: rows - 1, saved: [0, 0], alt: false}; }

  get base() { return Math.max(0, this.screen.lines.length - rows); }

  write(text) {
    text = this.rest + text;
    this.rest = "";
    const end = unfinished.exec(text.slice(-longest));
    if (end) {
      this.rest = end[0];
      text = text.slice(0, text.length - this.rest.length);
    }
    for (let i = 0; i < text.length;) {
      const c = text[i];
      if (c === "\x1b") {
        sequence.lastIndex = i;
        const m = sequence.exec(text);
        if (m) {
          i += m[0].length;
          if (m[2]) this.csi(m[1], m[2]); else if (m[3]) this.esc(m[3]);
          continue;
        }
      }
      const point = String.fromCodePoint(text.codePointAt(i));
      i += point.length;
      this.put(point);
    }
    const s = this.main;
    if (s.lines.length > keep + 500) {
      const gone = s.lines.length - keep;
      s.lines.splice(0, gone);
      s.row = Math.max(0, s.row - gone);
    }
  }

  line(row) {
    const s = this.screen;
    while (s.lines.length <= row) s.lines.push([]);
    return s.lines[row];
  }

  put(c) {
    const s = this.screen;
    switch (c) {
      case "\n": case "\v": case "\f": this.feed(); if (!s.alt && !this.raw) s.col = 0; return;
      case "\r": s.col = 0; return;
      case "\b": s.col = Math.max(0, s.col - 1); return;
      case "\t": s.col = (Math.floor(s.col / 8) + 1) * 8; return;
      case "\x07": case "\x0e": case "\x0f": case "\0": return;
    }
    if (s.alt && s.col >= cols) { s.col = 0; this.feed(); }
    const line = this.line(s.row);
    while (line.length < s.col) line.push([" ", ""]);
    line[s.col++] = [c, this.style];
  }

  feed() {
    const s = this.screen;
    if (s.alt && s.row - this.base === s.bottom) { this.scroll(1); return; }
    s.row++;
    this.line(s.row);
    if (s.alt && s.lines.length > rows) { s.lines.shift(); s.row--; }
  }

  // scroll moves the region up by n lines, or down if n is negative.
  scroll(n, from = this.screen.top) {
    const s = this.screen, base = this.base;
    this.line(base + s.bottom);
    for (; n > 0; n--) { s.lines.splice(base + from, 1); s.lines.splice(base + s.bottom, 0, []); }
    for (; n < 0; n++) { s.lines.splice(base + s.bottom, 1); s.lines.splice(base + from, 0, []); }
  }

  esc(c) {
    const s = this.screen;
    if (c === "7") s.saved = [s.row - this.base, s.col];
    else if (c === "8") this.move(...s.saved);
    else if (c === "M") { if (s.row - this.base === s.top) this.scroll(-1); else s.row = Math.max(this.base, s.row - 1); }
    else if (c === "D") this.feed();
    else if (c === "E") { s.col = 0; this.feed(); }
    else if (c === "c") { this.screen = this.main = this.fresh(); this.style = ""; }
  }

  move(row, col) {
    const s = this.screen;
    const at = this.base + Math.min(Math.max(row, 0), rows - 1);
    this.line(at);
    s.row = at;
    s.col = Math.min(Math.max(col, 0), 500);
  }

  csi(params, end) {
    const s = this.screen;
    if (params.startsWith("?")) {
      if ((end === "h" || end === "l") && /(^\?|;)(1049|1047|47)(;|$)/.test(params)) {
        this.screen = end === "h" ? {...this.fresh(), alt: true} : this.main;
      }
      return;
    }
    if (/[<=>!]/.test(params)) return;
    const p = params.split(/[;:]/).map((x) => Math.min(parseInt(x, 10) || 0, 1000));
    const n = Math.max(1, p[0] || 0);
    const row = s.row - this.base;
    switch (end) {
      case "A": this.move(row - n, s.col); break;
      case "B": case "e": this.move(row + n, s.col); break;
      case "C": case "a": this.move(row, s.col + n); break;
      case "D": this.move(row, s.col - n); break;
      case "E": this.move(row + n, 0); break;
      case "F": this.move(row - n, 0); break;
      case "G": case "`": this.move(row, n - 1); break;
      case "d": this.move(n - 1, s.col); break;
      case "H": case "f": this.move(n - 1, Math.max(1, p[1] || 0) - 1); break;
      case "J": this.erase(p[0]); break;
      case "K": this.eraseLine(this.line(s.row), p[0]); break;
      case "X": { const l = this.line(s.row); for (let i = s.col; i < Math.min(s.col + n, l.length); i++) l[i] = [" ", ""]; break; }
      case "P": this.line(s.row).splice(s.col, n); break;
      case "@": this.line(s.row).splice(s.col, 0, ...Array.from({length: Math.min(n, cols)}, () => [" ", ""])); break;
      case "L": this.scroll(-Math.min(n, rows), row); break;
      case "M": this.scroll(Math.min(n, rows), row); break;
      case "S": this.scroll(Math.min(n, rows)); break;
      case "T": this.scroll(-Math.min(n, rows)); break;
      case "r": s.top = Math.min(n, rows) - 1; s.bottom = Math.max(s.top, Math.min(p[1] || rows, rows) - 1); this.move(0, 0); break;
      case "s": s.saved = [row, s.col]; break;
      case "u": this.move(...s.saved); break;
      case "m": this.paint(p); break;
    }
  }

  eraseLine(line, how) {
    const s = this.screen;
    if (how === 0) line.length = Math.min(line.length, s.col);
    else if (how === 2) line.length = 0;
    else for (let i = 0; i <= s.col && i < line.length; i++) line[i] = [" ", ""];
  }

  erase(how) {
    const s = this.screen, base = this.base;
    if (how === 2 || how === 3) { for (let r = base; r < s.lines.length; r++) s.lines[r] = []; return; }
    this.eraseLine(this.line(s.row), how);
    if (how === 0) for (let r = s.row + 1; r < s.lines.length; r++) s.lines[r] = [];
    else for (let r = base; r < s.row; r++) s.lines[r] = [];
  }

  paint(p) {
    const on = new Set(this.style.split(" ").filter(Boolean));
    const colour = (kind, name) => {
      for (const c of [...on]) if (c.startsWith(kind)) on.delete(c);
      if (name !== undefined) on.add(kind + name);
    };
    for (let i = 0; i < p.length; i++) {
      const n = p[i];
      if (n === 0) on.clear();
      else if (n === 1) on.add("bold");
      else if (n === 2) on.add("faint");
      else if (n === 3) on.add("italic");
      else if (n === 4) on.add("under");
      else if (n === 7) on.add("inverse");
      else if (n === 22) { on.delete("bold"); on.delete("faint"); }
      else if (n === 23) on.delete("italic");
      else if (n === 24) on.delete("under");
      else if (n === 27) on.delete("inverse");
      else if (n >= 30 && n <= 37) colour("fg", n - 30);
      else if (n >= 90 && n <= 97) colour("fg", n - 90);
      else if (n === 39) colour("fg");
      else if (n >= 40 && n <= 47) colour("bg", n - 40);
      else if (n >= 100 && n <= 107) colour("bg", n - 100);
      else if (n === 49) colour("bg");
      else if (n === 38 || n === 48) {
        const kind = n === 38 ? "fg" : "bg";
        if (p[i + 1] === 5) { colour(kind, p[i + 2] < 16 ? p[i + 2] % 8 : undefined); i += 2; }
        else if (p[i + 1] === 2) { colour(kind); i += 4; }
      }
    }
    this.style = [...on].sort().join(" ");
  }

// nodes returns the visible content. Text in the background colour stays readable,
// because only the few styles above are supported.
  nodes() {
    const out = [];
    for (const line of this.screen.lines) {
      let text = "", style = "";
      const flush = () => {
        if (text) out.push(style ? el("span", {class: style}, shown(text)) : shown(text));
        text = "";
      };
      for (const cell of line) {
        const [c, st] = cell || [" ", ""];
        if (st !== style) { flush(); style = st; }
        text += c;
      }
      flush();
      out.push("\n");
    }
    return out;
  }
}
