import {el, replace, append, shown, oneLine, code, patch, isPatch, commandLine, duration, clock} from "./dom.js";
import {get} from "./link.js";

const most = 500; // lines

const outcomes = {ok: "good", "tool-error": "warn", refused: "bad", failed: "bad", invalid: "bad", cancelled: "dim", suspended: "dim"};

export class Calls {
  constructor(root, page) {
    this.root = root;
    this.page = page;
    this.seen = new Set();
    this.filter = el("input", {type: "search", id: "filter", placeholder: "tool, caller, outcome, words", oninput: () => this.refilter()});
    this.body = el("div", {class: "rows", role: "list", "aria-label": "Calls, the latest first"});
    this.none = el("div", {class: "none"}, el("p", {}, "No calls yet."));
    append(root, [
      el("div", {class: "bar"}, el("h2", {}, "Calls"), el("label", {for: "filter"}, "Filter ", el("kbd", {}, "/")), this.filter),
      el("div", {class: "rowhead", "aria-hidden": "true"}, ["time", "outcome", "tool", "what", "decision", "sandbox", "took", "caller"].map((h) => el("span", {}, h))),
      this.none, this.body]);
  }

  // opened: a new stream sends the last calls again.
  opened() {}

  add({event, subject}) {
    const key = event.id + event.time;
    if (this.seen.has(key)) return;
    this.seen.add(key);
    this.none.hidden = true;
    const row = this.row(event, subject);
    row.hidden = !this.wants(row);
    this.body.prepend(row);
    while (this.body.childElementCount > most) this.body.lastElementChild.remove();
  }

  row(ev, subject) {
    const tool = (ev.server ? ev.server + "/" : "") + ev.tool;
    const decision = decided(ev);
    const details = el("div", {class: "details"});
    const head = el("summary", {data: {entry: ev.id}},
      el("time", {datetime: ev.time}, clock(ev.time)),
      el("span", {class: "outcome " + (outcomes[ev.outcome] || "")}, ev.outcome),
      el("span", {class: "tool"}, oneLine(tool, 60)),
      el("span", {class: "what"}, oneLine(subject, 160)),
      el("span", {class: "decision"}, oneLine(decision, 60)),
      el("span", {class: "level"}, sandbox(ev)),
      el("span", {class: "took"}, duration(ev.duration_ns)),
      el("span", {class: "caller"}, oneLine(ev.agent || ev.caller, 40)));
    const row = el("details", {class: "row", role: "listitem", ontoggle: () => row.open && this.fill(details, ev)}, head, details);
    row.words = [tool, subject, decision, ev.outcome, ev.caller, ev.agent, ev.id, ev.reason, ev.error].join(" ").toLowerCase();
    return row;
  }

  async fill(box, ev) {
    if (box.childElementCount) return;
    const facts = [
      ["reason", ev.reason], ["rule", ev.rule], ["error", ev.error],
      ["answer", ev.asked && `${ev.asked}, by ${ev.answered_by}` + (ev.waited_ns ? ` after ${duration(ev.waited_ns)}` : "")],
      ["denied", ev.denied && [ev.denied.op, ev.denied.path, ev.denied.why].filter(Boolean).join(" ")],
      ["folder", ev.action?.dir], ["the model says", ev.action?.justification],
      ["profile", ev.profile && `${ev.profile} ${ev.profile_digest || ""}`], ["level", ev.level],
      ["ran", ev.run_ns && duration(ev.run_ns)], ["result", `${ev.bytes} bytes`],
      ["caller", `${ev.agent || "unknown client"} (${ev.caller})`], ["id", ev.id],
    ];
    append(box, [
      el("dl", {class: "facts"}, facts.filter(([, v]) => v).map(([k, v]) => el("div", {}, el("dt", {}, k), el("dd", {}, shown(v))))),
      ev.action?.command?.length && [el("h4", {}, "Command"), code(commandLine(ev.action.command), {class: "command"})],
      ev.arguments !== undefined && [el("h4", {}, "Arguments"), args(ev.arguments)],
      ev.rewritten !== undefined && [el("h4", {}, "Rewritten by a hook"), args(ev.rewritten)],
    ]);
    const output = el("div", {});
    box.append(output);
    try {
      const kept = await get("api/calls/" + encodeURIComponent(ev.id) + "/output");
      if (kept.kept) append(output, [el("h4", {}, "Output"), isPatch(kept.text) ? patch(kept.text) : code(kept.text, {class: "output"})]);
    } catch { /* then there is none */ }
  }

  wants(row) {
    return this.filter.value.toLowerCase().split(/\s+/).every((w) => row.words.includes(w));
  }

  refilter() { for (const row of this.body.children) row.hidden = !this.wants(row); }

  key(e) {
    if (e.key !== "/") return false;
    this.filter.focus();
    return true;
  }
}

function decided(ev) {
  if (ev.asked) return `${ev.verdict}: ${ev.asked}`;
  return ev.verdict || "";
}

function sandbox(ev) {
  if (!ev.run_ns) return "did not run";
  if (ev.server) return ev.level || "";
  return ev.profile === "danger-full-access" ? "none" : `${ev.level || "?"}, ${ev.profile}`;
}

// args renders arguments, and a patch among them as a diff.
function args(a) {
  if (a && typeof a === "object" && typeof a.input === "string" && isPatch(a.input)) return patch(a.input);
  return code(typeof a === "string" ? a : JSON.stringify(a, null, 2));
}
