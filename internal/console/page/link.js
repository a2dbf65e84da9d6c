// The connection to the gate: login, requests and events.

const base = new URL(".", location.href).pathname;
const tokenKey = "toolgate-console-token";

let token = localStorage.getItem(tokenKey) || "";

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function send(method, path, body) {
  const headers = {};
  if (token) headers["X-Toolgate-Console"] = token;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const res = await fetch(base + path, {
    method, headers, credentials: "same-origin", cache: "no-store", redirect: "error", referrerPolicy: "no-referrer",
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  if (!res.ok) {
    let why = res.statusText;
    try { why = (await res.json()).error || why; } catch { /* it says nothing */ }
    throw new Refused(res.status, why);
  }
  return res;
}

export async function get(path) { return (await send("GET", path)).json(); }
export async function post(path, body = {}) { return (await send("POST", path, body)).json(); }

// enter redeems the code in the URL, if there is one. It removes the code from the
// URL at once, so that it ends up neither in the history nor in a copied link.
export async function enter() {
  const m = /^#code=([A-Za-z0-9]+)$/.exec(location.hash);
  if (!m) return;
  history.replaceState(null, "", location.pathname);
  try {
    token = (await post("login", {code: m[1]})).token;
    localStorage.setItem(tokenKey, token);
  } catch (err) {
    if (!token) throw err; // else this browser is in already, and sees so
  }
}

export async function leave() {
  await post("logout");
  forget();
}

export function forget() {
  token = "";
  localStorage.removeItem(tokenKey);
}

// listen calls on(event, data) for each event, and state("open" | "closed" |
// "refused", why) when the connection changes. It reconnects until refused.
export async function listen(on, state) {
  for (let wait = 500; ; wait = Math.min(wait * 2, 8000)) {
    try {
      const res = await send("GET", "api/events");
      state("open");
      wait = 500;
      await readEvents(res.body, on);
      state("closed", "the stream ended");
    } catch (err) {
      if (err instanceof Refused && (err.status === 401 || err.status === 403)) {
        state("refused", err.message);
        return;
      }
      state("closed", err instanceof Refused ? err.message : "toolgate does not answer; it may have ended");
    }
    await new Promise((done) => setTimeout(done, wait));
  }
}

async function readEvents(body, on) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let parts = [];
  for (;;) {
    const {value, done} = await reader.read();
    if (done) return;
    parts.push(value);
    if (!value.includes("\n")) continue;
    const blocks = parts.join("").split("\n\n");
    parts = [blocks.pop()];
    for (const block of blocks) {
      let event = "", data = "";
      for (const line of block.split("\n")) {
        if (line.startsWith("event: ")) event = line.slice(7);
        else if (line.startsWith("data: ")) data += line.slice(6);
      }
      if (event) on(event, JSON.parse(data));
    }
  }
}
