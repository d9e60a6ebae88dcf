import assert from 'node:assert/strict'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { inspect } from 'node:util'
import { createExecutor, defineTool, type Executor, http, memoryAudit } from '@gantry/core'
import { grpc } from '@gantry/grpc'
import { mcp } from '@gantry/mcp'
import { samplePath, startSample } from '../../grpc/src/server.fixture.ts'
import { serveModern } from '../../mcp/src/client/http-server.fixture.ts'

const canary = 'canary/4711+secret value=ü'
const ascii = 'canary-0815-SECRET-token'
const everything = join(
  import.meta.dirname,
  '../../../node_modules/@modelcontextprotocol/server-everything/dist/index.js',
)

/** The secret as it is, and in every form that it is looked for in. */
function formsOf(secret: string): string[] {
  const bytes = Buffer.from(secret)
  const base64 = bytes.toString('base64')
  const forms = [secret, base64, bytes.toString('base64url'), bytes.toString('hex'), encodeURIComponent(secret)]
  return [...forms, Buffer.from(base64).toString('base64'), JSON.stringify(secret).slice(1, -1)]
}

/** A server that sends back everything it was sent, in every form, as its path says. */
async function startEcho(t: TestContext): Promise<{ readonly origin: string; readonly seen: string[] }> {
  const seen: string[] = []
  const server = createServer((request, response) => {
    const said = `${request.url} ${JSON.stringify(request.headers)}`
    seen.push(said)
    answer(request, response, formsOf(ascii).join(' | '), said)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  return { origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, seen }
}

function answer({ url = '' }: IncomingMessage, response: ServerResponse, forms: string, said: string): void {
  const [path] = url.split('?')
  if (path === '/fail') return void response.writeHead(500, { 'content-type': 'text/plain' }).end(`${forms} ${said}`)
  if (path === '/problem') {
    const problem = JSON.stringify({ title: forms, detail: said })
    return void response.writeHead(400, { 'content-type': 'application/problem+json' }).end(problem)
  }
  if (path === '/broken') return void response.writeHead(200, { 'content-type': 'application/json' }).end(`{${said}`)
  if (path === '/slow') return void response.writeHead(200, { 'content-type': 'text/plain' }).write(said)
  if (path === '/stream') {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    for (const piece of [said.slice(0, 40), said.slice(40), forms]) response.write(`data: ${piece}\n\n`)
    return void response.end()
  }
  response.setHeader('content-type', 'application/json').end(JSON.stringify({ forms, said, [said]: [forms] }))
}

/** Everything of a call that can be seen from outside. */
function watchAll(gantry: Executor): unknown[] {
  const observed: unknown[] = []
  const names = [
    ...(['call:started', 'call:reported', 'call:finished', 'call:late', 'call:failover', 'circuit:changed'] as const),
    ...(['backend:reported', 'tool:quarantined', 'egress:attempted', 'catalog:changed'] as const),
  ]
  for (const name of names) gantry.on(name, (event) => observed.push([name, event]))
  return observed
}

/** Runs a tool in every way, and keeps what comes back and what is thrown. */
async function useAll(gantry: Executor, id: string, args: object, kept: unknown[]): Promise<void> {
  kept.push(await gantry.run(id, args, { timeoutMs: 800 }))
  kept.push(await gantry.runOrThrow(id, args, { timeoutMs: 800 }).catch((error: unknown) => error))
  kept.push(await gantry.run(id, args, { timeoutMs: 20 }))
  const stop = new AbortController()
  const cancelled = gantry.run(id, args, { signal: stop.signal })
  setTimeout(() => stop.abort(), 10)
  kept.push(await cancelled)
  for await (const event of gantry.stream(id, args, { timeoutMs: 800 })) kept.push(event)
}

function assertNowhere(kept: readonly unknown[], secrets: readonly string[]): void {
  const text = kept
    .map((one) => `${safeJson(one)} ${inspect(one, { depth: 20, maxStringLength: Number.POSITIVE_INFINITY })}`)
    .join('\n')
  for (const form of secrets.flatMap(formsOf)) {
    const at = text.indexOf(form)
    assert.equal(at, -1, `found: …${text.slice(Math.max(0, at - 200), at + 200)}…`)
  }
}

function safeJson(value: unknown): string {
  try {
    return JSON.stringify(value) ?? ''
  } catch {
    return ''
  }
}

test('a secret of an HTTP backend is sent, and found nowhere afterwards', async (t) => {
  const { origin, seen } = await startEcho(t)
  const audit = memoryAudit()
  const paths = ['/ok', '/fail', '/problem', '/broken', '/slow', '/stream']
  const tools = paths.map((path) =>
    defineTool({
      namespace: 'api',
      name: path.slice(1),
      description: 'Echoes.',
      effect: 'read',
      inputSchema: { type: 'object' },
      backends: [{ kind: 'http', name: 'api', path }],
    }),
  )
  const backend = http({
    name: 'api',
    baseUrl: origin,
    auth: [
      { type: 'basic', username: 'me', password: 'secret:canary' },
      { type: 'header', name: 'X-Key', value: 'Token secret:ascii' },
      { type: 'query', name: 'key', value: 'secret:canary' },
      { type: 'cookie', name: 'session', value: 'secret:ascii' },
    ],
  })
  const egress = { allow: [{ origin, private: true }] }
  const secrets = { canary, ascii }
  const safeguards = { breaker: false } as const
  const gantry = createExecutor({ tools, backends: [backend], egress, secrets, audit, safeguards })
  const kept: unknown[] = [watchAll(gantry)]
  for (const path of paths) await useAll(gantry, `api:${path.slice(1)}`, {}, kept)
  await gantry.close()
  assert.ok(seen.every((said) => said.includes(ascii) && said.includes(encodeURIComponent(canary))))
  assert.ok(JSON.stringify(kept).includes('[redacted]'))
  assertNowhere([...kept, audit.records()], [canary, ascii])
})

test('a secret of an MCP program or address, and of a gRPC service, is used and found nowhere afterwards', async (t) => {
  const audit = memoryAudit()
  await using remote = await serveModern()
  const sample = await startSample()
  t.after(() => sample.close())
  const service = `grpc://127.0.0.1:${sample.port}`
  const backends = [
    mcp({ name: 'every', command: [process.execPath, everything], env: { TOKEN: 'secret:canary' } }),
    mcp({ name: 'remote', url: `${remote.origin}/mcp`, headers: { 'X-Key': 'secret:ascii' } }),
    grpc({ name: 'calc', address: service, proto: samplePath, metadata: { 'x-key': 'secret:ascii' } }),
  ]
  const allow = [remote.origin, `http://127.0.0.1:${sample.port}`].map((origin) => ({ origin, private: true }))
  const secrets = { canary, ascii }
  const gantry = createExecutor({ backends, secrets, audit, egress: { allow }, safeguards: { breaker: false } })
  const kept: unknown[] = [watchAll(gantry)]
  assert.deepEqual(await gantry.ready(), [])
  await useAll(gantry, 'every:get-env', {}, kept)
  await useAll(gantry, 'every:echo', { message: formsOf(canary).join(' ') }, kept)
  await useAll(gantry, 'remote:echo', { message: ascii, text: ascii }, kept)
  await useAll(gantry, 'calc:Calculator.End', { code: 2, message: `it knows ${ascii}` }, kept)
  await useAll(gantry, 'calc:Calculator.Shout', ascii as unknown as object, kept)
  kept.push(await gantry.search('echo'), gantry.tools().items, gantry.circuits.snapshot())
  await gantry.close()
  assert.ok(remote.requests.some(({ headers }) => headers['x-key'] === ascii))
  assert.ok(sample.seen.every((metadata) => metadata.get('x-key')[0] === ascii))
  assert.match(JSON.stringify(kept), /TOKEN\\?[^[]*\[redacted\]/)
  assertNowhere([...kept, audit.records()], [canary, ascii])
})
