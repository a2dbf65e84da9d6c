#!/usr/bin/env node
// Finds the toolgate program for this platform and runs it in place of this process.
// Nothing is written to stdout, which belongs to the protocol.
"use strict";

const fs = require("node:fs");
const path = require("node:path");
const { spawn } = require("node:child_process");

const scope = "@toolgate"; // of the platform packages
const platforms = ["linux-x64", "linux-arm64", "darwin-x64", "darwin-arm64", "win32-x64", "win32-arm64"];

// programName returns the file name of the program on the platform.
function programName(name, platform) {
  return platform === "win32" ? name + ".exe" : name;
}

// resolveFrom is require.resolve that returns "" instead of throwing.
function resolveFrom(id, dir) {
  try {
    return require.resolve(id, { paths: [dir] });
  } catch {
    return "";
  }
}

function realPath(file) {
  try {
    return fs.realpathSync(file);
  } catch {
    return file;
  }
}

// findProgram returns the path of the program: the one named by TOOLGATE_BINARY, else
// the one in the platform package, else the one next to this file.
function findProgram({ env, platform, arch, dir, resolve = resolveFrom, exists = fs.existsSync, real = realPath }) {
  const at = platform === "win32" ? path.win32 : path.posix;
  if (env.TOOLGATE_BINARY) {
    if (real(env.TOOLGATE_BINARY) === real(__filename)) {
      return { fault: `TOOLGATE_BINARY is ${env.TOOLGATE_BINARY}, which is this launcher`, hint: "name the program itself, or unset it" };
    }
    if (exists(env.TOOLGATE_BINARY)) return { file: env.TOOLGATE_BINARY };
    return { fault: `TOOLGATE_BINARY is ${env.TOOLGATE_BINARY}, and there is no such file` };
  }
  const target = `${platform}-${arch}`;
  if (!platforms.includes(target)) {
    return { fault: `there is no build for ${target}, only for ${platforms.join(", ")}`, hint: "build it with Go and set TOOLGATE_BINARY to the program" };
  }
  const manifest = resolve(`${scope}/${target}/package.json`, dir);
  const places = [at.join(dir, programName("toolgate", platform))];
  if (manifest) places.unshift(at.join(at.dirname(manifest), "bin", programName("toolgate", platform)));
  const file = places.find((f) => exists(f));
  if (file) return { file };
  return {
    fault: `the package ${scope}/${target} is not installed`,
    hint:
      "it is an optional dependency, which is left out by --omit=optional, by a lock file made on another system, " +
      "and by copying node_modules from one; remove node_modules and the lock file and install again, " +
      "or set TOOLGATE_BINARY to a toolgate program",
  };
}

function fail(fault, hint) {
  process.stderr.write(`toolgate: error: ${fault}\n`);
  if (hint) process.stderr.write(`toolgate: hint: ${hint}\n`);
  process.exitCode = 1;
}

// runBeside starts the program as a child process with our streams, forwards signals,
// and exits with its status.
function runBeside(file, args) {
  let child;
  const forward = (signal) => child.kill(signal);
  const signals = ["SIGINT", "SIGTERM", "SIGHUP"];
  // Before the program starts: a signal must not end us and leave it behind.
  for (const s of signals) process.on(s, forward);
  child = spawn(file, args, { stdio: "inherit", windowsHide: true });
  child.on("error", (err) => fail(`${file} does not start: ${err.message}`));
  child.on("exit", (code, signal) => {
    for (const s of signals) process.off(s, forward);
    if (signal) process.kill(process.pid, signal);
    else process.exitCode = code;
  });
}

function main() {
  const here = { env: process.env, platform: process.platform, arch: process.arch, dir: __dirname };
  const { file, fault, hint } = findProgram(here);
  if (fault) return fail(fault, hint);
  const args = process.argv.slice(2);
  // A failing execve aborts the process, so check the file first.
  try {
    fs.accessSync(file, fs.constants.X_OK);
  } catch (err) {
    return fail(`${file} does not start: ${err.message}`);
  }
  if (typeof process.execve === "function" && process.platform !== "win32") {
    process.execve(file, [file, ...args], process.env);
  }
  runBeside(file, args);
}

if (require.main === module) main();
else module.exports = { findProgram, platforms };
