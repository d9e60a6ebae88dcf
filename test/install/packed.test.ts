import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import {
  cpSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { before, test } from 'node:test'
import { emptyFolder, installed, node, root } from './project.fixture.ts'

const project = emptyFolder()
const packages = join(installed, 'node_modules')

/** The suites for drivers are built and are no part of an installation. */
before(() => {
  const modules = join(project, 'node_modules')
  mkdirSync(join(modules, '@gantry'), { recursive: true })
  cpSync(join(root, 'build/conformance'), join(modules, '@gantry/conformance'), { recursive: true })
  for (const name of ['fast-check', 'pure-rand']) symlinkSync(join(root, 'node_modules', name), join(modules, name))
})

test('the built library runs in an empty project, without type stripping', () => {
  writeFileSync(
    join(project, 'main.js'),
    `import { createExecutor, demoTools } from 'gantry'
     import { testBackend } from '@gantry/conformance'
     const gantry = createExecutor({ tools: demoTools() })
     const chain = await gantry.chain([{ tool: 'demo:add', args: { a: 5, b: 3 } }, { tool: 'demo:echo', args: { value: '{{prev.result}}' } }])
     console.log(JSON.stringify(chain.output), typeof testBackend)
     await gantry.close()`,
  )
  const { stdout, stderr, status } = node(['main.js'], project)
  assert.equal(status, 0, stderr)
  assert.equal(stdout, '{"value":8} function\n')
})

test('@gantry/core alone installs undici as its only foreign dependency, within 5 MB, runs a tool, and names the packages to install for more', () => {
  const alone = mkdtempSync(join(tmpdir(), 'gantry-core-'))
  const modules = join(alone, 'node_modules')
  try {
    const own = ['@gantry/core', '@gantry/contract', '@gantry/json-schema']
    const names = [...own, 'undici']
    for (const name of names) {
      const from = own.includes(name) ? join(root, 'build', basename(name)) : join(root, 'node_modules', name)
      cpSync(from, join(modules, name), { recursive: true })
      const { dependencies = {} } = JSON.parse(readFileSync(join(modules, name, 'package.json'), 'utf8'))
      for (const each of Object.keys(dependencies)) assert.ok(names.includes(each), `${name} brings ${each}`)
    }
    const bytes = globSync('**/*', { cwd: modules }).reduce((sum, file) => sum + statSync(join(modules, file)).size, 0)
    assert.ok(bytes <= 5_000_000, `${bytes} bytes`)
    writeFileSync(join(alone, 'package.json'), '{"type":"module"}')
    writeFileSync(
      join(alone, 'main.js'),
      `import { createExecutor, defineTool } from '@gantry/core'
       const inputSchema = { type: 'object', properties: { n: { type: 'number' } } }
       const of = (name, how) => defineTool({ namespace: 'my', name, description: 'It.', effect: 'read', inputSchema, ...how })
       const gantry = createExecutor({ tools: [
         of('double', { run: ({ n }) => n * 2 }),
         of('remote', { backends: [{ kind: 'mcp', name: 'files' }] }),
         of('program', { backends: [{ kind: 'sandboxed', takes: 'code' }] }),
       ] })
       const said = async (outcome) => (await outcome).error?.message.match(/npm install (\\S+?)\`/)?.[1]
       console.log(JSON.stringify([
         (await gantry.run('my:double', { n: 21 })).output,
         await said(gantry.run('my:remote', {})),
         await said(gantry.run('my:program', {})),
         await said(gantry.code('return 1')),
       ]))
       await gantry.close()`,
    )
    const { stdout, stderr, status } = node(['main.js'], alone)
    assert.equal(status, 0, stderr)
    assert.deepEqual(JSON.parse(stdout), [42, '@gantry/mcp', '@gantry/sandbox', '@gantry/sandbox'])
  } finally {
    rmSync(alone, { recursive: true, force: true })
  }
})

test('the built command runs', () => {
  const bin = join(packages, 'gantry/bin/gantry.mjs')
  const { stdout, stderr, status } = node([bin, 'run', 'demo:add', '{"a":5,"b":3}', '--json'], project)
  assert.equal(status, 0, stderr)
  assert.deepEqual(JSON.parse(stdout).output, { result: 8 })
})

test('what the built command writes into an empty folder is checked, runs, and its test passes', () => {
  const bin = join(packages, 'gantry/bin/gantry.mjs')
  const mine = join(project, 'mine')
  const steps = [
    { args: [bin, 'init', 'mine'], cwd: project },
    { args: [bin, 'config', 'check'], cwd: mine },
    { args: [bin, 'run', 'my:greet', '{"name":"Ada"}'], cwd: mine },
    { args: ['--test'], cwd: mine },
  ]
  for (const { args, cwd } of steps) {
    const { status, stdout, stderr } = node(args, cwd)
    assert.equal(status, 0, `${args.join(' ')}\n${stdout}${stderr}`)
  }
})

test('the built service runs by npx, with its migrations and threads, the command finds it, and it ends with npx', async () => {
  const env = { ...process.env, NODE_OPTIONS: '--no-experimental-strip-types', GANTRY_LOG: 'error' }
  const child = spawn('npx', ['--no', '--loglevel=error', '--', 'gantry', 'serve', '--port', '0', '--json'], {
    cwd: project,
    env,
    stdio: ['ignore', 'pipe', 'inherit'], // The log has errors only.
  })
  let printed = ''
  // stdout ends when the last process that holds it has ended, which is the service and not npx.
  for await (const text of child.stdout.setEncoding('utf8')) {
    printed += text
    if (!text.includes('\n')) continue
    const bin = join(packages, 'gantry/bin/gantry.mjs')
    const { stdout, stderr, status } = node([bin, 'run', 'demo:add', '{"a":5,"b":3}', '--verbose'], project)
    child.kill('SIGTERM')
    assert.equal(status, 0, stderr)
    assert.equal(stdout, '{\n  "result": 8\n}\n')
    assert.match(stderr, /^Asking the service at http:/)
  }
  const { state, url } = JSON.parse(printed)
  assert.equal(state, 'ready')
  await assert.rejects(fetch(`${url}/healthz`), TypeError)
})

test('the built client runs in an empty project', () => {
  writeFileSync(
    join(project, 'client.js'),
    `import { createServer } from 'node:http'
     import { createClient } from '@gantry/client'
     const server = createServer((request, response) => {
       response.setHeader('content-type', 'application/json')
       response.end(JSON.stringify({ status: 'ok', output: { key: request.headers.authorization } }))
     })
     server.listen(0, '127.0.0.1', async () => {
       const client = createClient({ url: 'http://127.0.0.1:' + server.address().port, key: 'gk_1' })
       console.log(JSON.stringify((await client.call('demo:add')).output))
       server.close().closeAllConnections()
     })`,
  )
  const { stdout, stderr, status } = node(['client.js'], project)
  assert.equal(status, 0, stderr)
  assert.equal(stdout, '{"key":"Bearer gk_1"}\n')
})

test('the runtime kubernetes names the client that is to be installed', () => {
  writeFileSync(
    join(project, 'kubernetes.js'),
    `import { builtinTools, createExecutor } from 'gantry'
     const gantry = createExecutor({ tools: builtinTools(), runtimes: { kubernetes: {} } })
     const { error } = await gantry.run('code:run', { language: 'bash', code: 'id', runtime: 'kubernetes' })
     console.log(error.code, error.message.match(/npm install (\\S+?)\`/)?.[1])
     await gantry.close()`,
  )
  const { stdout, stderr } = node(['kubernetes.js'], project)
  const { version } = JSON.parse(readFileSync(join(root, 'node_modules/@kubernetes/client-node/package.json'), 'utf8'))
  assert.equal(stdout, `RUNTIME_UNAVAILABLE @kubernetes/client-node@${version}\n`, stderr)
})
