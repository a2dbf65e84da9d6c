import {el, replace, shown, oneLine} from "./dom.js";
import * as link from "./link.js";
import {Approvals} from "./approvals.js";
import {Calls} from "./calls.js";
import {Servers} from "./servers.js";
import {Sessions} from "./sessions.js";
import {Rules} from "./rules.js";

const byID = (id) => document.getElementById(id);
const tabs = [...document.querySelectorAll("[role=tab]")];
const notice = byID("notice");

// tell shows a transient message.
let noticeEnds = 0;
export function tell(text, bad = false) {
  replace(notice, shown(text));
  notice.className = bad ? "bad show" : "show";
  clearTimeout(noticeEnds);
  noticeEnds = setTimeout(() => { notice.className = ""; }, bad ? 8000 : 3500);
}

function count(view, n) {
  const badge = document.querySelector(`#tab-${view} .count`);
  if (!badge) return;
  badge.hidden = n === 0;
  replace(badge, n);
  if (view === "approvals") document.title = (n ? `(${n}) ` : "") + "toolgate";
}

const page = {tell, count, news: (text) => byID("news").replaceChildren(el("p", {}, oneLine(text)))};
const views = {
  approvals: new Approvals(byID("view-approvals"), page),
  calls: new Calls(byID("view-calls"), page),
  servers: new Servers(byID("view-servers"), page),
  sessions: new Sessions(byID("view-sessions"), page),
  rules: new Rules(byID("view-rules"), page),
};
let current = "";

function show(name, focus) {
  if (current === name) return;
  views[current]?.hide?.();
  current = name;
  for (const section of document.querySelectorAll(".view")) section.hidden = section.id !== "view-" + name;
  for (const tab of tabs) {
    const on = tab.dataset.view === name;
    tab.setAttribute("aria-selected", on);
    tab.tabIndex = on ? 0 : -1;
    if (on) {
      byID("main").setAttribute("aria-labelledby", tab.id);
      if (focus) tab.focus();
    }
  }
  views[name]?.show?.();
}

for (const tab of tabs) tab.addEventListener("click", () => show(tab.dataset.view, true));
document.querySelector("[role=tablist]").addEventListener("keydown", (e) => {
  const step = {ArrowRight: 1, ArrowLeft: -1}[e.key];
  const open = tabs.filter((t) => !t.hidden);
  let to = -1;
  if (step) to = (open.findIndex((t) => t.dataset.view === current) + step + open.length) % open.length;
  else if (e.key === "Home") to = 0;
  else if (e.key === "End") to = open.length - 1;
  if (to < 0) return;
  e.preventDefault();
  show(open[to].dataset.view, true);
});

const help = byID("help");
byID("helpbutton").addEventListener("click", () => help.showModal());
byID("logout").addEventListener("click", async () => {
  help.close();
  try { await link.leave(); } catch (err) { tell(err.message, true); }
  location.reload();
});

// Keyboard shortcuts depend on the focused element. Key repeat is ignored.
document.addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || e.repeat || help.open) return;
  if (e.target.closest("input, textarea, select")) {
    if (e.key === "Escape") e.target.blur();
    return;
  }
  if (e.key === "?") { help.showModal(); return; }
  const tab = tabs.filter((t) => !t.hidden).find((t) => t.querySelector("kbd").textContent === e.key);
  if (tab) { show(tab.dataset.view, true); return; }
  if (e.key === "j" || e.key === "k") { step(e.key === "j" ? 1 : -1); e.preventDefault(); return; }
  if (views[current]?.key?.(e)) e.preventDefault();
});

// step moves the focus between the entries of the view.
function step(by) {
  const all = [...document.querySelectorAll(`#view-${current} [data-entry]`)].filter((n) => n.checkVisibility());
  if (!all.length) return;
  const at = all.indexOf(document.activeElement?.closest?.("[data-entry]"));
  all[at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(Math.max(at + by, 0), all.length - 1)].focus();
}

function showLogin(why) {
  link.forget();
  if (why) replace(byID("login-reason"), shown(why));
  for (const tab of tabs) tab.hidden = true;
  document.querySelector("[role=tablist]").hidden = true;
  show("login");
}

const dot = byID("link");
function state(how, why) {
  dot.className = how;
  replace(byID("linktext"), how === "open" ? "live" : how === "closed" ? "not connected" : "not logged in");
  dot.title = why || "";
  document.body.classList.toggle("stale", how !== "open");
  if (how === "open") for (const v of Object.values(views)) v.opened?.();
  if (how === "refused") showLogin(why);
}

async function start() {
  try {
    await link.enter();
    const about = await link.get("api/about");
    replace(byID("about"), oneLine(about.workspace || "all of your toolgates"));
    byID("about").title = `toolgate ${about.version}, process ${about.pid}`;
    for (const tab of tabs) tab.hidden = !about.views.includes(tab.dataset.view);
    show(about.views[0], true);
  } catch (err) {
    state("closed", err.message);
    if (err instanceof link.Refused) return showLogin(err.message);
  }
  await link.listen((event, data) => {
    if (event === "call") views.calls.add(data);
    else views[event]?.update(data);
  }, state);
}

addEventListener("hashchange", () => { if (location.hash.startsWith("#code=")) location.reload(); });
setInterval(() => views[current]?.tick?.(), 1000);
start();
