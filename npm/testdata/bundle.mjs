// Prints the command line that the bundle's own tool makes of a manifest:
// node bundle.mjs TOOL BUNDLE WORKSPACE...
import { readFileSync } from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [tool, bundle, ...workspaces] = process.argv.slice(2);
const { getMcpConfigForManifest } = await import(pathToFileURL(path.join(tool, "dist", "shared", "config.js")));
const config = await getMcpConfigForManifest({
  manifest: JSON.parse(readFileSync(path.join(bundle, "manifest.json"), "utf8")),
  extensionPath: bundle,
  systemDirs: {},
  userConfig: { workspaces },
  pathSeparator: path.sep,
});
console.log(JSON.stringify([config.command, ...config.args]));
