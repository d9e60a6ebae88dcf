import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startRig } from './http.fixture.ts'

test('a server that closes answers waiting requests with the state of their call, which goes on', async (t) => {
  const { post, server, service } = await startRig(t)
  const waiting = post('/v1/calls', { tool: 'demo:sleep', args: { ms: 60_000 }, idempotencyKey: 'k' })
  while (service.ran.length === 0) await new Promise((resolve) => setTimeout(resolve, 5))
  await server.close({ graceMs: 20_000 })
  const answer = await waiting
  const { callId, state } = (await answer.json()) as { callId: string; state: string }
  assert.deepEqual([answer.status, state, answer.headers.get('connection')], [202, 'running', 'close'])
  const identity = { principal: 'owner', tenant: 'acme', permissions: [] }
  assert.equal((await service.call(callId, identity)).result, undefined)
})

test('a server that closes ends event streams with a comment, not with an end event', async (t) => {
  const { post, ask, server } = await startRig(t)
  const begun = await post('/v1/calls', { tool: 'demo:sleep', args: { ms: 60_000 }, waitMs: 0 })
  const { callId } = (await begun.json()) as { callId: string }
  const stream = await ask(`/v1/calls/${callId}/events`)
  const closed = server.close({ graceMs: 20_000 })
  const pieces: Uint8Array[] = []
  await assert.rejects(async () => {
    for await (const piece of stream.body ?? []) pieces.push(piece as Uint8Array)
  })
  assert.equal(Buffer.concat(pieces).toString(), ': ask again after the last event\n\n')
  await closed
  await assert.rejects(fetch(`${server.url}/healthz`))
})

test('a request that does not end within the grace period is cut off, and a second close does nothing more', async (t) => {
  const { ask, server, service } = await startRig(t)
  let inside = false
  const hang = {
    ...service,
    ready() {
      inside = true
      return new Promise<never>(() => undefined)
    },
  }
  const other = await startRig(t, { service: hang })
  const asked = assert.rejects(other.ask('/readyz'))
  assert.equal((await ask('/readyz')).status, 200)
  while (!inside) await new Promise((resolve) => setTimeout(resolve, 5))
  await Promise.all([other.server.close({ graceMs: 50 }), other.server.close()])
  await asked
  await server.close()
})
