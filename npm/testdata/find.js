// Prints what the launcher's functions answer for the cases on stdin.
"use strict";
const { findProgram, findRipgrep, withPath } = require(process.argv[2]);
const cases = JSON.parse(require("node:fs").readFileSync(0, "utf8"));
const answers = cases.map(({ env = {}, platform, arch, dir, packages = {}, files = [], add = "" }) => {
  const world = { env, platform, arch, dir, resolve: (id) => packages[id] || "", exists: (f) => files.includes(f) };
  return { ...findProgram(world), rg: findRipgrep(world), env: withPath(env, add, platform) };
});
console.log(JSON.stringify(answers));
