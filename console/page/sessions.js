import {el, append} from "./dom.js";

export class Sessions {
  constructor(root, page) {
    append(root, [el("h2", {}, "Sessions")]);
  }
  update() {}
}
