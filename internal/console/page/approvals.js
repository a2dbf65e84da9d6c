import {el, replace, append, shown, oneLine, code, patch, isPatch, commandLine, left, clock} from "./dom.js";
import {post} from "./link.js";

// An entry accepts no answer for this many ms after it appears, moves or gets the
// focus, so that a person cannot answer an entry without having seen it.
const settle = 500;

const answers = [
  {word: "once", key: "o", label: "Once", says: "this call only"},
  {word: "session", key: "s", label: "Session", says: "this call and what “Session also covers” says, until the session ends"},
  {word: "always", key: "a", label: "Always", says: "from now on, by adding the rule"},
  {word: "no", key: "n", label: "No", says: "do not run it"},
];

export class Approvals {
  constructor(root, page) {
    this.root = root;
    this.page = page;
    this.cards = new Map();
    this.list = el("ol", {class: "cards", "aria-label": "Questions that wait"});
    this.none = el("div", {class: "none"}, el("p", {}, "Nothing waits for you."),
      el("p", {class: "dim"}, "Questions that a client cannot put to its user come here, and to ", el("code", {}, "toolgate approvals"), "."));
    this.error = el("p", {class: "error", role: "alert", hidden: true});
    append(root, [el("h2", {class: "unseen"}, "Waiting for an answer"), this.error, this.none, this.list]);
    this.lifetime = 3600;
    this.first = true;
  }

  update({list, error, lifetime}) {
    this.lifetime = lifetime || this.lifetime;
    this.error.hidden = !error;
    replace(this.error, shown(error));
    const there = new Set(list.map((e) => e.id));
    for (const card of this.cards.values()) if (!there.has(card.entry.id)) card.gone();
    const fresh = [];
    for (const e of list) {
      const card = this.cards.get(e.id);
      if (card) { card.entry.held = e.held; continue; }
      fresh.push(e);
      const made = new Card(e, this);
      this.cards.set(e.id, made);
      this.list.append(made.node);
      made.arm();
    }
    this.page.count("approvals", list.length);
    this.none.hidden = this.cards.size > 0;
    if (fresh.length && !this.first) {
      this.page.news(fresh.length === 1 ? `New question: ${words(fresh[0])}` : `${fresh.length} new questions`);
    }
    this.first = false;
    this.tick();
  }

  tick() { for (const card of this.cards.values()) card.tick(this.lifetime); }

  show() { for (const card of this.cards.values()) card.arm(); }

  key(e) {
    const card = this.cards.get(document.activeElement?.closest?.("[data-entry]")?.dataset.entry);
    const answer = answers.find((a) => a.key === e.key);
    if (!card || !answer) return false;
    card.give(answer.word);
    return true;
  }

// drop removes an answered card. The cards after it move, so they are disarmed.
  drop(card) {
    const focused = card.node.contains(document.activeElement);
    const next = card.node.nextElementSibling || card.node.previousElementSibling;
    this.cards.delete(card.entry.id);
    card.node.remove();
    this.none.hidden = this.cards.size > 0;
    for (const other of this.cards.values()) other.arm();
    if (focused) (next || document.getElementById("tab-approvals")).focus();
  }
}

function words(e) {
  if (e.about?.command?.length) return commandLine(e.about.command).slice(0, 120);
  return e.about?.server ? `${e.about.server}: ${e.tool}` : e.tool;
}

class Card {
  constructor(entry, owner) {
    this.entry = entry;
    this.owner = owner;
    this.armedAt = 0;
    this.done = false;
    const a = entry.about || {};
    const title = el("h3", {id: "q-" + entry.id}, a.stage === "widen" ? "Run again, outside the sandbox: " : "",
      a.server ? [oneLine(entry.tool), " of the server ", oneLine(a.server)] : oneLine(entry.tool));
    this.expires = el("span", {class: "expires"});
    this.buttons = answers.filter((x) => this.offers(x.word)).map((x) => el("button", {
      type: "button", class: "answer " + x.word, title: x.says, data: {answer: x.word}, onclick: (e) => this.give(x.word, e),
    }, x.label, el("kbd", {}, x.key)));
    this.node = el("li", {class: "card", tabindex: -1, data: {entry: entry.id}, "aria-labelledby": "q-" + entry.id},
      el("div", {class: "cardhead"}, title, this.expires),
      this.what(a), this.why(a), this.facts(a),
      entry.grants && el("p", {class: "grants"}, "Session also covers: ", shown(entry.grants)),
      entry.always && el("p", {class: "always"}, "Always adds: ", el("code", {}, shown(entry.always))),
      el("div", {class: "answers", role: "group", "aria-label": "Answer"}, this.buttons));
    // Pressing a pointer here is an explicit choice and does not move the focus.
    let pressed = false;
    this.node.addEventListener("pointerdown", () => { pressed = true; setTimeout(() => { pressed = false; }); });
    this.node.addEventListener("focusin", (e) => {
      if (!pressed && !this.node.contains(e.relatedTarget)) this.arm();
    });
  }

  offers(word) {
    if (word === "session") return !this.entry.each;
    if (word === "always") return !!this.entry.always;
    return true;
  }

  what(a) {
    const parts = [];
    if (a.command?.length) {
      parts.push(code(commandLine(a.command), {class: "command", "aria-label": "command"}));
    }
    if (a.preview) {
      parts.push(isPatch(a.preview) ? patch(a.preview) : code(a.preview, {"aria-label": "what it was given"}));
      if (a.cut) parts.push(el("p", {class: "error"}, `${a.cut} bytes in the middle are not shown; look at them before you say yes.`));
    }
    if (a.writes?.length) {
      parts.push(el("details", {open: a.writes.length <= 6}, el("summary", {}, `${a.writes.length} ${a.writes.length === 1 ? "path" : "paths"} to be changed`),
        el("ul", {class: "paths"}, a.writes.map((w) => el("li", {}, el("code", {}, shown(w)))))));
    }
    if (a.runs?.length) {
      parts.push(el("p", {}, "Files that it runs, as they are now: "), el("ul", {class: "paths"}, a.runs.map((f) => el("li", {}, el("code", {}, shown(f))))));
    }
    if (!parts.length) parts.push(code(this.entry.message));
    return parts;
  }

  why(a) {
    return [
      a.reason && el("p", {class: "reason"}, el("strong", {}, "Why you are asked: "), shown(a.reason)),
      a.denied && el("p", {}, "The sandbox refused: ", shown([a.denied.op, a.denied.path, a.denied.why].filter(Boolean).join(" "))),
      a.justification && el("blockquote", {}, el("span", {class: "dim"}, "The model says: "), shown(a.justification)),
    ];
  }

  facts(a) {
    const after = a.mode === "danger-full-access" ? el("strong", {class: "danger"}, "outside the sandbox")
      : [a.mode, ", network: ", a.network];
    const facts = [
      ["asks", [oneLine(a.agent || "unknown client", 80), " (", oneLine(this.entry.caller, 80), ")"]],
      ["workspace", a.workspace && oneLine(a.workspace)],
      ["folder", a.dir && a.dir !== a.workspace && oneLine(a.dir)],
      ["after a yes", a.mode && after],
      ["rule", a.rule && oneLine(a.rule)],
      ["session", a.session && oneLine(a.session)],
      ["asked", el("time", {datetime: this.entry.asked}, clock(this.entry.asked))],
      ["id", el("code", {}, this.entry.id)],
    ];
    return el("dl", {class: "facts"}, facts.filter(([, v]) => v).map(([k, v]) => el("div", {}, el("dt", {}, k), el("dd", {}, v))));
  }

  // arm starts the time in which no answer is accepted.
  arm() {
    if (this.done) return;
    this.armedAt = performance.now() + settle;
    this.node.classList.remove("armed");
    clearTimeout(this.arming);
    this.arming = setTimeout(() => this.node.classList.add("armed"), settle);
  }

  async give(word, event) {
    if (this.done || performance.now() < this.armedAt || !this.offers(word)) return;
    if (event && !event.isTrusted) return;
    this.done = true;
    this.node.classList.add("done", word === "no" ? "no" : "yes");
    for (const b of this.buttons) b.setAttribute("aria-disabled", "true");
    try {
      await post("api/approvals/" + encodeURIComponent(this.entry.id), {answer: word});
      this.owner.page.tell(word === "no" ? "Refused." : `Allowed: ${word}.`);
      this.finish(word === "no" ? "refused" : "allowed, " + word);
    } catch (err) {
      this.owner.page.tell(err.message, true);
      if (err.status === 404 || err.status === 409) { this.finish("answered elsewhere"); return; }
      this.done = false;
      this.node.classList.remove("done", "no", "yes");
      for (const b of this.buttons) b.removeAttribute("aria-disabled");
      this.arm();
    }
  }

  // gone is called when the question has left the queue.
  gone() {
    if (!this.done) {
      this.done = true;
      this.node.classList.add("done");
      this.finish("answered elsewhere, or expired");
    }
  }

  finish(how) {
    replace(this.expires, how);
    this.finished = true;
    setTimeout(() => this.owner.drop(this), 1200);
  }

  tick(lifetime) {
    if (this.finished) return;
    const now = Date.now(), held = this.entry.held ? Date.parse(this.entry.held) : 0;
    const until = Date.parse(this.entry.asked) + lifetime * 1000;
    if (this.entry.about?.beside) {
      this.node.classList.add("held");
      replace(this.expires, "the client asks, too; the first answer holds");
      return;
    }
    this.node.classList.toggle("held", held > now);
    replace(this.expires, held > now ? `the call waits ${left(held - now)} more`
      : `no call waits now; a yes is for the same call again · expires in ${left(until - now)}`);
  }
}
