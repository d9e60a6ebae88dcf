import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type TestContext, test } from 'node:test'
import { type Identity, type Result, ToolError } from '@gantry/contract'
import type { Backend } from '@gantry/core'
import { builtinTools } from '@gantry/tools'
import { postgresDatabase } from './databases.fixture.ts'
import { sampleTool } from './sample-tool.fixture.ts'
import { openServiceSite, servePeople } from './service-site.fixture.ts'

const people: { readonly [key: string]: Identity } = {
  ada: { principal: 'ada', tenant: 'acme', permissions: ['*'] },
  gus: { principal: 'gus', tenant: 'globex', permissions: ['shell:*', 'http:*', 'test:*', 'gantry:operate'] },
}
/** Nothing listens on port 1. */
const dead = 'http://127.0.0.1:1'
const breaker = { minCalls: 2, openMs: 60_000, maxOpenMs: 60_000 }

/** The origin of a server that responds. */
async function listening(t: TestContext): Promise<string> {
  const server = createServer((_request, response) => response.end('here'))
  t.after(() => server.close())
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

type Ask = (body: object, headers?: object) => Promise<{ readonly result: Result; readonly retryAfter: string | null }>

/** A service with HTTP API, built-in tools, and a tool whose backend can be taken down. */
async function openSite(t: TestContext) {
  const alive = await listening(t)
  const remote = { down: true, calls: 0 }
  const backend: Backend = {
    kind: 'remote',
    name: 'far',
    async call({ args }) {
      remote.calls += 1
      if (remote.down && args.well !== true) throw new ToolError('BACKEND_UNAVAILABLE', 'The far end is down.')
      return 'up'
    },
  }
  const far = sampleTool({
    name: 'far',
    description: 'Far.',
    backends: [{ kind: 'remote', name: 'far' }],
  })
  const site = await openServiceSite(t, async () => (await postgresDatabase(t)).database, {
    tools: [...builtinTools(), far],
    backends: [backend],
    egress: { allow: [dead, alive].map((origin) => ({ origin, private: true as const })) },
    safeguards: { breaker },
  })
  const server = await servePeople(site.service, people)
  t.after(() => server.close({ graceMs: 1_000 }))
  const ask = async (who: string, method: string, path: string, body?: object, headers: object = {}) =>
    fetch(`${server.url}${path}`, {
      method,
      headers: { authorization: who, 'content-type': 'application/json', ...headers },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(30_000),
    })
  const as =
    (who: string): Ask =>
    async (body, headers) => {
      const answer = await ask(who, 'POST', '/v1/calls', { waitMs: 20_000, ...body }, headers)
      return { result: (await answer.json()) as Result, retryAfter: answer.headers.get('retry-after') }
    }
  return { site, alive, remote, ask, ada: as('ada'), gus: as('gus') }
}

const codeOf = async (asked: ReturnType<Ask>): Promise<string> => {
  const { status, error } = (await asked).result
  return error?.code ?? status
}

test('failures of one tenant, by timeouts or an unreachable origin, open no circuit for another tenant', async (t) => {
  const { alive, ada, gus, remote } = await openSite(t)
  for (let call = 0; call < 3; call++) {
    const hang = ada({ tool: 'shell:run', args: { argv: ['sleep', '20'] }, timeoutMs: 300 })
    assert.equal(await codeOf(hang), 'TIMEOUT')
    assert.notEqual(await codeOf(ada({ tool: 'http:fetch', args: { url: `${dead}/` } })), 'ok')
    assert.notEqual(await codeOf(ada({ tool: 'test:far', args: {} })), 'ok')
  }
  assert.equal(await codeOf(ada({ tool: 'http:fetch', args: { url: `${dead}/` } })), 'CIRCUIT_OPEN')
  assert.equal(await codeOf(ada({ tool: 'test:far', args: {} })), 'CIRCUIT_OPEN')
  assert.equal(remote.calls, 2)
  assert.equal(await codeOf(ada({ tool: 'shell:run', args: { argv: ['true'] } })), 'ok')
  const served = { tool: 'http:fetch', args: { url: `${alive}/` } }
  for (const asker of [ada, gus]) assert.equal(await codeOf(asker(served)), 'ok')
  assert.equal(await codeOf(gus({ tool: 'shell:run', args: { argv: ['true'] } })), 'ok')
  assert.equal(await codeOf(gus({ tool: 'test:far', args: { well: true } })), 'ok')
})

test('an open circuit fails a call with Retry-After, and its idempotency key can be used again', async (t) => {
  const { site, ada, ask, remote } = await openSite(t)
  for (let call = 0; call < 2; call++) assert.equal(await codeOf(ada({ tool: 'test:far' })), 'BACKEND_UNAVAILABLE')
  const { result, retryAfter } = await ada({ tool: 'test:far' }, { 'idempotency-key': 'k' })
  const { error } = result
  assert.deepEqual(
    [result.status, error?.code, error?.retryable, error?.effect],
    ['failed', 'CIRCUIT_OPEN', true, 'none'],
  )
  const waitMs = Number(error?.details?.retryAfterMs)
  assert.ok(waitMs > 0 && waitMs <= 60_000, JSON.stringify(error))
  assert.equal(retryAfter, String(Math.ceil(waitMs / 1_000)))
  remote.down = false
  const key = 'test:far @ remote:far'
  assert.deepEqual(await (await ask('ada', 'POST', '/v1/circuits/reset', { key })).json(), { reset: true })
  assert.deepEqual(await (await ask('ada', 'POST', '/v1/circuits/reset', { key })).json(), { reset: false })
  const notes = await site.database.query("select tool, call_id, principal from audit where phase = 'admin'")
  assert.deepEqual(notes[0], { tool: 'circuits.reset', call_id: key, principal: 'ada' })
  const unknown = await ask('ada', 'POST', '/v1/circuits/reset', { key: 'no:tool' })
  assert.equal(unknown.status, 404)
  const again = await ada({ tool: 'test:far' }, { 'idempotency-key': 'k' })
  assert.equal(again.result.status, 'ok', JSON.stringify(again.result))
  assert.notEqual(again.result.callId, result.callId)
  const repeat = await ada({ tool: 'test:far' }, { 'idempotency-key': 'k' })
  assert.equal(repeat.result.callId, again.result.callId)
})

test('onCircuitOpen wait delays a call while its circuit is open, and fails it if its deadline or timeout is sooner', async (t) => {
  const { site, ada, ask, remote } = await openSite(t)
  for (let call = 0; call < 2; call++) assert.equal(await codeOf(ada({ tool: 'test:far' })), 'BACKEND_UNAVAILABLE')
  const soon = new Date(Date.now() + 10_000).toISOString()
  const bounded = ada({ tool: 'test:far', onCircuitOpen: 'wait', deadline: soon })
  assert.equal(await codeOf(bounded), 'CIRCUIT_OPEN')
  assert.equal(await codeOf(ada({ tool: 'test:far', onCircuitOpen: 'wait', timeoutMs: 500 })), 'CIRCUIT_OPEN')
  const body = { tool: 'test:far', onCircuitOpen: 'wait', waitMs: 0 }
  const { callId } = (await (await ask('ada', 'POST', '/v1/calls', body)).json()) as { callId: string }
  while ((await site.service.call(callId, people.ada as Identity)).state !== 'delayed') await new Promise(setImmediate)
  assert.equal(remote.calls, 2)
  const refused = await ask('ada', 'POST', '/v1/calls', { tool: 'test:far', onCircuitOpen: 'later' })
  assert.equal(refused.status, 400)
})
