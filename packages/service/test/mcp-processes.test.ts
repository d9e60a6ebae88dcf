import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { type TestContext, test } from 'node:test'
import { envelope, revision } from '../src/mcp/mcp.fixture.ts'
import { migratedFolder, type ServeProcess, serviceFolder, startServe } from './serve.fixture.ts'
import { bin, cleanEnvironment, gantry, node } from './spawn.fixture.ts'

interface Message {
  readonly id?: unknown
  readonly method?: string
  // biome-ignore lint/suspicious/noExplicitAny: a test reads it as it expects it
  readonly result?: any
  readonly error?: { readonly message: string }
}

/** Starts `gantry mcp` as a client does. */
function startMcp(t: TestContext, folder: string, args: readonly string[] = []) {
  const options = { folder, cache: join(folder, '.cache') }
  const child = spawn(node, [bin, 'mcp', ...args], {
    cwd: folder,
    env: cleanEnvironment(options),
    stdio: ['pipe', 'pipe', 'pipe'] as const,
  })
  const [lines, waiting] = [[] as string[], new Map<unknown, (message: Message) => void>()]
  let err = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    err += text
  })
  child.stdin.on('error', () => undefined)
  createInterface({ input: child.stdout }).on('line', (line) => {
    lines.push(line)
    const message = JSON.parse(line) as Message
    waiting.get(message.id ?? message.method)?.(message)
  })
  const ended = once(child, 'close') as Promise<[number | null, string | null]>
  t.after(async () => {
    child.kill('SIGKILL')
    await ended
  })
  const send = (message: object): void => void child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)
  let last = 0
  const request = (method: string, params: object = {}): Promise<Message> => {
    last += 1
    const answer = new Promise<Message>((resolve) => waiting.set(last, resolve))
    send({ id: last, method, params })
    return Promise.race([answer, ended.then(() => Promise.reject(new Error(`It ended: ${err}`)))])
  }
  const open = async (): Promise<void> => {
    const params = { protocolVersion: '2025-11-25', clientInfo: { name: 't', version: '1' }, capabilities: {} }
    await request('initialize', params)
    send({ method: 'notifications/initialized' })
  }
  /** The next notification of this name. */
  const notified = (method: string): Promise<Message> => new Promise((resolve) => waiting.set(method, resolve))
  return { child: child as ChildProcess, lines, ended, request, notified, open, stdin: child.stdin, err: () => err }
}

/** Sends a request of revision 2026-07-28 as a client that supports tasks. */
async function ask(serve: ServeProcess, method: string, params: { readonly [name: string]: unknown }) {
  const capabilities = { extensions: { 'io.modelcontextprotocol/tasks': {} } }
  const _meta = { ...envelope, 'io.modelcontextprotocol/clientCapabilities': capabilities }
  const headers = {
    accept: 'application/json, text/event-stream',
    'mcp-protocol-version': revision,
    'mcp-method': method,
    'mcp-name': String(params.name ?? params.taskId),
  }
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: { ...params, _meta } })
  return ((await (await serve.ask('/mcp', { method: 'POST', headers, body })).json()) as Message).result
}

test('gantry mcp writes only protocol messages to stdout, whatever a tool prints, and exits at the end of input', async (t) => {
  const folder = serviceFolder(t)
  const config = `
    import { defineTool } from '@gantry/core'
    export default { builtins: false, tools: [defineTool({
      namespace: 'my', name: 'noisy', description: 'Prints.', effect: 'read', inputSchema: { type: 'object' },
      run() { console.log('NOISE'); process.stdout.write('NOISE\\n'); return 'done' },
    })] }`
  writeFileSync(join(folder, 'gantry.config.mjs'), config)
  const mcp = startMcp(t, folder)
  await mcp.open()
  const called = await mcp.request('tools/call', { name: 'my__noisy', arguments: {} })
  assert.equal(called.result.content[0].text, 'done')
  mcp.stdin.end()
  assert.deepEqual(await mcp.ended, [0, null])
  assert.ok(mcp.lines.every((line) => JSON.parse(line).jsonrpc === '2.0'))
  assert.match(mcp.err(), /NOISE/)
})

test('gantry mcp --local watches its tools folder, and notifies the client of changes', async (t) => {
  const folder = serviceFolder(t)
  mkdirSync(join(folder, 'tools'), { mode: 0o755 })
  const file = (name: string): string => join(folder, 'tools', `${name}.ts`)
  const put = (name: string): void => {
    const tool = `{ namespace: 'mine', name: '${name}', description: 'One.', effect: 'read', inputSchema, run: () => 1 }`
    const text = `import { defineTool } from '@gantry/core'\nconst inputSchema = { type: 'object' }\nexport const one = defineTool(${tool})\n`
    writeFileSync(file(name), text, { mode: 0o644 })
  }
  put('first')
  writeFileSync(join(folder, 'gantry.config.json'), JSON.stringify({ builtins: false, toolsFolder: 'tools' }))
  const mcp = startMcp(t, folder, ['--local'])
  await mcp.open()
  const names = async (): Promise<string[]> =>
    (await mcp.request('tools/list')).result.tools.map(({ name }: { name: string }) => name)
  assert.deepEqual(await names(), ['mine__first'])
  const notified = mcp.notified('notifications/tools/list_changed')
  put('second')
  await notified
  assert.deepEqual(await names(), ['mine__first', 'mine__second'])
  const notifiedAgain = mcp.notified('notifications/tools/list_changed')
  rmSync(file('first'))
  await notifiedAgain
  assert.deepEqual(await names(), ['mine__second'])
  const called = await mcp.request('tools/call', { name: 'mine__second', arguments: {} })
  assert.equal(called.result.content[0].text, '1')
})

test('gantry mcp exits with 0 on SIGTERM, and survives a line of 100 MB', async (t) => {
  const folder = serviceFolder(t)
  const first = startMcp(t, folder)
  await first.open()
  first.child.kill('SIGTERM')
  assert.deepEqual(await first.ended, [0, null])
  const second = startMcp(t, folder)
  await second.open()
  const piece = Buffer.alloc(1_048_576, 'a')
  for (let sent = 0; sent < 100 && second.child.exitCode === null; sent += 1) {
    await new Promise<void>((resolve) => second.stdin.write(piece, () => resolve()))
  }
  second.stdin.write('\n')
  assert.deepEqual((await second.request('ping')).result, {})
  const refused = second.lines.map((line) => JSON.parse(line) as Message).filter(({ error }) => error !== undefined)
  assert.deepEqual(refused, [
    { jsonrpc: '2.0', id: null, error: { code: -32_600, message: 'The message is longer than 16777216 bytes.' } },
  ])
  second.stdin.end()
  assert.deepEqual(await second.ended, [0, null], second.err())
})

test('a task survives a kill -9 of its service, and a stdio client continues with the restarted service', {
  timeout: 120_000,
}, async (t) => {
  const folder = await migratedFolder(t)
  const config = `
    import { setTimeout as delay } from 'node:timers/promises'
    import { defineTool } from '@gantry/core'
    export default { mcp: { taskAfterMs: 50 }, builtins: false, tools: [defineTool({
      namespace: 'my', name: 'slow', description: 'Is slow.', effect: 'read',
      inputSchema: { type: 'object', properties: { ms: { type: 'number' } } },
      async run({ ms }, { signal }) { await delay(ms, undefined, { signal }); return 'slept' },
    })] }`
  const file = join(folder, 'slow.config.mjs')
  writeFileSync(file, config)
  const how = { args: ['--config', file] }
  const first = startServe(t, folder, how)
  await first.ready
  const mcp = startMcp(t, folder, ['--config', file])
  await mcp.open()
  const before = await mcp.request('tools/call', { name: 'my__slow', arguments: { ms: 1 } })
  assert.equal(before.result.content[0].text, 'slept')
  const task = await ask(first, 'tools/call', { name: 'my__slow', arguments: { ms: 2_000 } })
  assert.deepEqual([task.resultType, task.status], ['task', 'working'])
  const { port } = new URL(await first.ready)
  await first.stop('SIGKILL')

  const second = startServe(t, folder, { args: [...how.args, '--port', port] })
  await second.ready
  let seen = await ask(second, 'tasks/get', { taskId: task.taskId })
  while (seen.status === 'working') seen = await ask(second, 'tasks/get', { taskId: task.taskId })
  assert.deepEqual([seen.status, seen.result.content[0].text], ['completed', 'slept'])
  // The restarted service does not know the session; the client must not notice.
  const asked = () => mcp.request('tools/call', { name: 'my__slow', arguments: { ms: 1 } })
  const after = await Promise.all(Array.from({ length: 5 }, asked))
  assert.ok(after.every(({ result }) => result?.content[0].text === 'slept'))
  assert.equal(await second.stop(), 0)
})

test('gantry mcp install prints a configuration for each known client, and rejects unknown ones', async (t) => {
  const folder = serviceFolder(t)
  const how = { folder, cache: join(folder, '.cache') }
  const { code, out, err } = await gantry(['mcp', 'install', '--json'], how)
  assert.equal(code, 0, err)
  const all = JSON.parse(out) as { client: string; text: string }[]
  assert.equal(all.length, 7)
  const { args } = JSON.parse(all.find(({ client }) => client === 'cursor')?.text ?? '').mcpServers.gantry
  // The client may start it in another folder, so that the data folder is absolute.
  assert.deepEqual(args.slice(1), ['mcp', '--data', join(folder, '.gantry')])
  const wrong = await gantry(['mcp', 'install', 'emacs'], how)
  assert.equal(wrong.code, 2)
})
