// Toolgate as the client that the conformance suite tests: the suite starts
// this with the address of its server. We list that server's tools through
// toolgate, call them, and log in as often as toolgate says that it is needed.
import { execFile } from 'node:child_process'
import { mkdtempSync, mkdirSync, rmSync, writeFileSync, chmodSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const url = process.argv.at(-1)
const scenario = process.env.MCP_CONFORMANCE_SCENARIO ?? ''
const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT || '{}')
const home = mkdtempSync(join(tmpdir(), 'conformance-'))
mkdirSync(join(home, 'ws'))
process.on('exit', () => rmSync(home, { recursive: true, force: true }))

// A browser whose person says yes: it follows where it is sent.
const browser = join(home, 'browser')
writeFileSync(browser, `#!/bin/sh\nexec "${process.execPath}" -e 'fetch(process.argv[1])' "$1"\n`)
chmodSync(browser, 0o755)

let config = `[mcp_servers.s]\nurl = "${url}"\ntrusted = true\nrequired = true\nprefix = ""\ndefault_tools_approval_mode = "approve"\n`
// A client id metadata document is a client id of the user's, as any other.
const id = scenario === 'auth/basic-cimd' ? 'https://conformance-test.local/client-metadata.json' : context.client_id
if (id) config += `[mcp_servers.s.oauth]\nclient_id = "${id}"\n`
if (id && context.client_secret) config += `client_secret = "${context.client_secret}"\n`
writeFileSync(join(home, 'config.toml'), config)

const run = (...args) =>
  new Promise((done) => {
    execFile(process.env.TOOLGATE, args, { cwd: join(home, 'ws'), env: { ...process.env, TOOLGATE_HOME: home, BROWSER: browser } }, (err, stdout, stderr) => {
      console.log('$ toolgate', ...args, '\n' + stderr + stdout.slice(0, 2000))
      done({ code: err ? (err.code ?? 1) : 0, stdout, text: stdout + stderr })
    })
  })

// sample returns arguments that fit a schema.
const sample = (schema) =>
  Object.fromEntries(
    Object.entries(schema.properties ?? {})
      .filter(([name]) => schema.required?.includes(name))
      .map(([name, p]) => [name, { number: 2, integer: 2, boolean: true, array: [], object: {} }[p.type] ?? 'x']),
  )

const own = /^(shell|exec_command|write_stdin|list_sessions|read_output|apply_patch|edit_file|undo_patch|turn_diff|read_file|list_dir|grep_files|find_files|view_image|list_mcp_.*|read_mcp_resource)$/
for (let login = 0; ; login++) {
  const listed = await run('tools', '--json')
  let text = listed.text
  const tools = listed.code === 0 ? JSON.parse(listed.stdout).tools.filter((t) => !own.test(t.name)) : []
  const calls = context.toolCalls ?? tools.map((t) => ({ name: t.name, arguments: sample(t.inputSchema) }))
  for (const c of calls) {
    const got = await run('call', c.name, JSON.stringify(c.arguments ?? {}))
    text += got.text
    if (/login needed|insufficient scope/.test(got.text)) break
  }
  if (!/login needed|insufficient scope/.test(text)) break
  if (login === 3) process.exit(1)
  let got = await run('mcp', 'login', 's')
  // A secret of the user's goes nowhere that the user has not named. This one agrees.
  const issuer = got.text.match(/set (authorization_server_issuer = "[^"]+")/)
  if (got.code !== 0 && issuer) {
    writeFileSync(join(home, 'config.toml'), (config += issuer[1] + '\n'))
    got = await run('mcp', 'login', 's')
  }
  if (got.code !== 0) process.exit(1)
}
