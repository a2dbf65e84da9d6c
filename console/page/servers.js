import {el, append} from "./dom.js";

export class Servers {
  constructor(root, page) {
    append(root, [el("h2", {}, "Servers")]);
  }
  update() {}
}
