import {el, replace, append, shown, oneLine} from "./dom.js";
import {post} from "./link.js";

export class Rules {
  constructor(root, page) {
    this.page = page;
    this.error = el("p", {class: "error", role: "alert", hidden: true});
    this.none = el("div", {class: "none"}, el("p", {}, "No rules."),
      el("p", {class: "dim"}, "An answer of “always” writes one. Files with the ending .rules in toolgate's rules folder are read, too."));
    this.files = el("div", {class: "stack"});
    this.session = el("div", {class: "stack"});
    append(root, [el("h2", {}, "Rules"), this.error, this.none, this.files,
      el("h2", {}, "Until the session ends"), this.session]);
  }

  update({list, error, remembered}) {
    this.error.hidden = !error;
    replace(this.error, shown(error));
    this.none.hidden = list.length > 0;
    replace(this.files, list.map((f) => this.file(f)));
    replace(this.session, (remembered || []).length === 0 && el("p", {class: "dim"}, "No answer holds for a session now."),
      (remembered || []).map((m) => el("div", {class: "rule"}, el("code", {}, oneLine(m.key, 400)), el("span", {class: "dim"}, "caller ", oneLine(m.caller, 60)),
        this.button("Forget", () => post("api/rules/forget", m)))));
  }

  file(f) {
    const lines = f.text.replace(/\n$/, "").split("\n");
    return el("section", {class: "row file"}, el("h3", {}, el("code", {}, shown(f.name)), f.kept && el("span", {class: "dim"}, " “always” writes here")),
      f.fault && el("p", {class: "error"}, shown(f.fault), " The rules that were read before stay in force."),
      el("ol", {class: "lines"}, lines.map((text, i) => el("li", {class: "rule"}, el("code", {}, shown(text)),
        f.kept && text.trim() && this.button("Remove", () => post("api/rules/remove", {line: i + 1, text}))))));
  }

  // button acts only when pressed twice.
  button(label, act) {
    let armed = 0;
    const b = el("button", {type: "button", class: "small", onclick: async () => {
      if (!armed) {
        replace(b, "Really?");
        armed = setTimeout(() => { armed = 0; replace(b, label); }, 4000);
        return;
      }
      clearTimeout(armed);
      try {
        await act();
        this.page.tell("Done.");
      } catch (err) { this.page.tell(err.message, true); }
      armed = 0;
      replace(b, label);
    }}, label);
    return b;
  }
}
