import {el, append} from "./dom.js";

export class Rules {
  constructor(root, page) {
    append(root, [el("h2", {}, "Rules")]);
  }
  update() {}
}
