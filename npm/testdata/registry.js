// A registry of the packages in one folder: node registry.js DIR PORTFILE.
// DIR/index.json is a list of {manifest, file}.
"use strict";
const fs = require("node:fs");
const http = require("node:http");
const path = require("node:path");

const [dir, portFile] = process.argv.slice(2);
const list = JSON.parse(fs.readFileSync(path.join(dir, "index.json"), "utf8"));
const server = http.createServer((req, res) => {
  const url = decodeURIComponent(req.url);
  const base = `http://127.0.0.1:${server.address().port}`;
  const tarball = list.find((p) => url === "/-/" + p.file);
  if (tarball) return res.end(fs.readFileSync(path.join(dir, tarball.file)));
  const all = list.filter((p) => url === "/" + p.manifest.name);
  if (all.length === 0) return res.writeHead(404).end("{}");
  const versions = {};
  for (const p of all) versions[p.manifest.version] = { ...p.manifest, dist: { tarball: `${base}/-/${p.file}` } };
  const latest = Object.keys(versions).at(-1);
  res.setHeader("content-type", "application/json");
  res.end(JSON.stringify({ name: all[0].manifest.name, "dist-tags": { latest }, versions }));
});
server.listen(0, "127.0.0.1", () => fs.writeFileSync(portFile, String(server.address().port)));
