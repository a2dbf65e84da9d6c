import {el, replace, append, shown, oneLine} from "./dom.js";
import {get} from "./link.js";
import {Terminal} from "./terminal.js";

const look = 500; // ms between looks at what is printed
const tail = 64 << 10; // of what was printed before, in bytes

export class Sessions {
  constructor(root, page) {
    this.page = page;
    this.rows = new Map();
    this.none = el("div", {class: "none"}, el("p", {}, "No sessions."),
      el("p", {class: "dim"}, "Commands that run on after their call has been answered are listed here."));
    this.list = el("div", {class: "stack", role: "list"});
    this.title = el("h3", {});
    this.note = el("p", {class: "dim"});
    this.screen = el("pre", {class: "terminal", tabindex: 0, role: "log", "aria-label": "what the session prints; nothing can be typed here"});
    this.pane = el("section", {class: "pane", hidden: true}, this.title, this.note, this.screen);
    append(root, [el("h2", {}, "Sessions"), this.none, el("div", {class: "split"}, this.list, this.pane)]);
    this.visible = false;
  }

  update({list}) {
    const keys = new Set(list.map(keyOf));
    for (const [key, row] of this.rows) {
      if (keys.has(key)) continue;
      row.remove();
      this.rows.delete(key);
    }
    for (const s of list) {
      const key = keyOf(s);
      let row = this.rows.get(key);
      if (!row) {
        row = el("button", {type: "button", class: "sess", data: {entry: key, session: s.id}, onclick: () => this.open(key)});
        this.rows.set(key, row);
        this.list.append(row);
      }
      row.session = s;
      replace(row, el("code", {}, oneLine(s.command, 120)),
        el("span", {class: s.state === "running" ? "good" : "dim"}, s.state), el("span", {class: "dim"}, `${s.age} ago · ${s.mode}, level ${s.level} · `, oneLine(s.caller, 40)));
      if (key === this.current) this.describe(s);
    }
    this.none.hidden = list.length > 0;
    this.page.count("sessions", list.filter((s) => s.state === "running").length);
  }

  describe(s) {
    replace(this.title, el("code", {}, oneLine(s.command, 200)));
    replace(this.note, `${s.state} · session ${s.id} · read-only`);
  }

  open(key) {
    const s = this.rows.get(key)?.session;
    if (!s) return;
    this.current = key;
    this.next = -tail;
    this.terminal = new Terminal();
    for (const [k, row] of this.rows) row.setAttribute("aria-current", k === key);
    this.pane.hidden = false;
    replace(this.screen);
    this.describe(s);
    this.run();
  }

  show() { this.visible = true; this.run(); }
  hide() { this.visible = false; }

  // run polls the output while it is visible.
  async run() {
    if (this.running) return;
    this.running = true;
    while (this.visible && this.current) {
      const key = this.current, s = this.rows.get(key)?.session, terminal = this.terminal;
      if (!s) break;
      let more = false;
      try {
        const o = await get(`api/sessions/${encodeURIComponent(s.worker)}/${encodeURIComponent(s.id)}?from=${this.next}`);
        if (key === this.current && terminal === this.terminal) {
          this.next = o.to;
          more = o.to < o.total;
          if (o.lost) terminal.write(`\r\n[${o.lost} bytes are not kept]\r\n`);
          if (o.text || o.lost) {
            terminal.write(o.text);
            if (!more) this.draw(terminal);
          }
        }
      } catch (err) {
        if (key === this.current) replace(this.note, shown(err.message));
        break;
      }
      if (!more) await new Promise((done) => setTimeout(done, look));
    }
    this.running = false;
  }

  draw(terminal) {
    const atEnd = this.screen.scrollTop + this.screen.clientHeight >= this.screen.scrollHeight - 8;
    replace(this.screen, terminal.nodes());
    if (atEnd) this.screen.scrollTop = this.screen.scrollHeight;
  }
}

const keyOf = (s) => s.worker + "/" + s.id;
