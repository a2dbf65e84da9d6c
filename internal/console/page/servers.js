import {el, replace, append, shown, oneLine, code, patch, lineDiff} from "./dom.js";
import {get, post} from "./link.js";

const states = {ready: "good", failed: "bad", backoff: "warn", starting: "dim", stopped: "dim"};

export class Servers {
  constructor(root, page) {
    this.page = page;
    this.cards = new Map();
    this.none = el("div", {class: "none"}, el("p", {}, "No servers."),
      el("p", {class: "dim"}, el("code", {}, "toolgate mcp add"), " adds one."));
    this.list = el("div", {class: "stack"});
    append(root, [el("h2", {}, "Servers"), this.none, this.list]);
  }

  update({list}) {
    const names = new Set(list.map((s) => s.name));
    for (const [name, card] of this.cards) {
      if (names.has(name)) continue;
      card.node.remove();
      this.cards.delete(name);
    }
    for (const s of list) {
      let card = this.cards.get(s.name);
      if (!card) {
        card = new Card(s, this.page);
        this.cards.set(s.name, card);
        this.list.append(card.node);
      }
      card.update(s);
    }
    this.none.hidden = list.length > 0;
    this.page.count("servers", list.reduce((n, s) => n + s.changed, 0));
  }
}

class Card {
  constructor(server, page) {
    this.page = page;
    this.name = server.name;
    this.state = el("span", {class: "outcome"});
    this.facts = el("span", {class: "dim"});
    this.wrong = el("div", {});
    this.tools = el("div", {class: "tools"});
    this.restart = el("button", {type: "button", onclick: () => this.again()}, "Restart");
    this.node = el("details", {class: "row server", data: {server: server.name}, ontoggle: () => this.node.open && this.load()},
      el("summary", {data: {entry: server.name}}, el("strong", {}, oneLine(server.name, 60)), this.state, this.facts),
      el("div", {class: "details"}, el("p", {}, this.restart), this.wrong, this.tools));
  }

  update(s) {
    const before = this.server;
    this.server = s;
    replace(this.state, s.state);
    this.state.className = "outcome " + (states[s.state] || "");
    replace(this.facts, [`${s.tools} ${s.tools === 1 ? "tool" : "tools"}`, s.changed ? `${s.changed} to look at` : "", s.version && "MCP " + s.version,
      s.level && "sandbox level " + s.level, s.error && "failed: " + s.error].filter(Boolean).map((t, i) => [i ? " · " : "", oneLine(t, 200)]));
    this.node.classList.toggle("changed", s.changed > 0);
    replace(this.wrong, s.error && el("p", {class: "error"}, shown(s.error)),
      s.faults?.length && el("ul", {class: "paths"}, s.faults.map((f) => el("li", {class: "warn"}, shown(f)))));
    if (this.node.open && before && (before.tools !== s.tools || before.changed !== s.changed)) this.load();
  }

  async again() {
    try {
      await post(`api/servers/${encodeURIComponent(this.name)}/restart`);
      this.page.tell(`${this.name} is started again.`);
    } catch (err) { this.page.tell(err.message, true); }
  }

  async load() {
    let answer;
    try { answer = await get(`api/servers/${encodeURIComponent(this.name)}`); } catch (err) {
      replace(this.tools, el("p", {class: "error"}, shown(err.message)));
      return;
    }
    const {tools, digest} = answer;
    const changed = tools.filter((t) => t.changed);
    replace(this.tools,
      changed.length > 0 && el("div", {class: "review"},
        el("h4", {}, "Changed since first seen, and held back"),
        changed.map((t) => this.changedTool(t)),
        el("button", {type: "button", class: "accept", onclick: () => this.accept(digest)}, "Accept these tools as they are now")),
      tools.filter((t) => !t.changed).map((t) => el("details", {class: "tool"},
        el("summary", {}, el("code", {}, oneLine(t.name, 100)), " ", el("span", {class: "dim"}, oneLine(firstLine(t.now), 120)), flags(t)),
        code(pretty(t.now)))));
  }

  changedTool(t) {
    return el("article", {class: "tool changed"}, el("h3", {}, el("code", {}, shown(t.name)), flags(t)),
      patch(lineDiff(pretty(t.before), pretty(t.now)), {"aria-label": "old and new definition"}));
  }

  async accept(digest) {
    try {
      await post(`api/servers/${encodeURIComponent(this.name)}/accept`, {digest});
      this.page.tell("Accepted.");
    } catch (err) { this.page.tell(err.message, true); }
    this.load();
  }
}

function flags(t) {
  return (t.flags || []).map((f) => el("p", {class: "error flag"}, "look at this: it ", shown(f)));
}

const firstLine = (def) => String(def?.description || "").split("\n")[0];

// pretty formats a definition, with long texts on lines of their own.
function pretty(def) {
  return JSON.stringify(def ?? null, null, 2).replaceAll("\\n", "\n");
}
