// Prints the results of the launcher's findProgram for the cases on stdin.
"use strict";
const { findProgram } = require(process.argv[2]);
const cases = JSON.parse(require("node:fs").readFileSync(0, "utf8"));
const answers = cases.map(({ env = {}, platform, arch, dir, packages = {}, files = [] }) => {
  const world = { env, platform, arch, dir, resolve: (id) => packages[id] || "", exists: (f) => files.includes(f) };
  return findProgram(world);
});
console.log(JSON.stringify(answers));
