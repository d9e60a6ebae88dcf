import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { attackLimits } from '@gantry/conformance/internal/attacks/attack'
import { createHostClient, HostRefusal } from '../client/host-client.ts'
import { jsonBytes } from '../protocol/documents.ts'
import { encodeJob } from '../protocol/job.ts'
import { hostTest, startHost, testKey } from '../test-host.fixture.ts'

const other = { id: 'other', key: 'o'.repeat(48) }
const id = 'A'.repeat(16)
const path = `/v1/sandboxes/${id}`
const signal = AbortSignal.timeout(120_000)
const spec = { language: 'python', limits: attackLimits }

/** A host, and clients with keys that send whatever they like. */
async function attacked(t: TestContext) {
  const host = await startHost({ keys: [testKey, other] })
  const clients = [testKey, other].map((key) => createHostClient({ url: new URL(host.url), key: async () => key }))
  t.after(async () => {
    for (const client of clients) client.close()
    await host.close()
  })
  const [client, stranger] = clients
  assert.ok(client !== undefined && stranger !== undefined)
  const { instance } = (await client.ask({ method: 'GET', path: '/v1/host', timeoutMs: 5_000 }, signal)) as {
    instance: string
  }
  const by = (from: typeof client) => (method: 'GET' | 'PUT' | 'POST' | 'DELETE', at: string, body?: Uint8Array) =>
    from.ask({ method, path: at, instance, timeoutMs: 30_000, ...(body === undefined ? {} : { body }) }, signal)
  return { host, ask: by(client), stranger: by(stranger) }
}

const refused = (code: string) => (error: unknown) => {
  assert.ok(error instanceof HostRefusal, String(error))
  assert.equal(error.code, code)
  return true
}

hostTest('sandboxes of one key cannot be used, ended or renewed by another', async (t) => {
  const { host, ask, stranger } = await attacked(t)
  await ask('PUT', path, jsonBytes(spec))
  await assert.rejects(stranger('PUT', path, jsonBytes(spec)), refused('CONFLICT'))
  await assert.rejects(
    stranger('PUT', `${path}/runs/1`, encodeJob({ program: { kind: 'script', script: 'id' } })),
    refused('SANDBOX_GONE'),
  )
  await stranger('DELETE', path)
  const { ended } = (await stranger('POST', '/v1/heartbeat', jsonBytes({ sandboxes: [id], done: [id] }))) as {
    ended: string[]
  }
  assert.deepEqual(ended, [id], 'what it cannot see is gone for it')
  assert.ok(!host.records.some(({ event }) => event === 'ended'))
  await ask('DELETE', path)
})

hostTest(
  'specs and jobs of another form, paths outside of the workspace and limits above those of the host are refused',
  async (t) => {
    const { host, ask } = await attacked(t)
    for (const wrong of [
      {},
      { ...spec, dial: {} },
      { ...spec, network: { allow: ['https://x.example'] } },
      { limits: { wallMs: 1 } },
      [],
    ]) {
      await assert.rejects(ask('PUT', path, jsonBytes(wrong)), refused('INVALID'), JSON.stringify(wrong))
    }
    const greedy = { ...spec, limits: { ...attackLimits, memoryBytes: Number.MAX_SAFE_INTEGER } }
    await assert.rejects(ask('PUT', path, jsonBytes(greedy)), /memoryBytes must be a whole number from/)
    await ask('PUT', path, jsonBytes(spec))
    const program = { kind: 'script', script: 'id' } as const
    const job = (files: string): Buffer => encodeJob({ program, files: new Map([[files, Buffer.from('x')]]) })
    for (const wrong of [
      Buffer.alloc(0),
      Buffer.from([0xff, 0xff, 0xff, 0xff]),
      job('../x'),
      job('/etc/x'),
      encodeJob({ program, env: { 'A=B': 'x' } }),
    ]) {
      await assert.rejects(ask('PUT', `${path}/runs/1`, wrong), /Invalid job/)
    }
    await assert.rejects(ask('GET', `${path}/runs/1`), refused('RUN_UNKNOWN'))
    await assert.rejects(ask('PUT', `${path}/runs/2`, encodeJob({ program })), refused('CONFLICT'))
    await assert.rejects(
      ask('POST', `${path}/runs/1/answers`, jsonBytes({ first: 1, answers: [] })),
      refused('RUN_UNKNOWN'),
    )
    assert.ok(!host.records.some(({ event }) => event === 'run'))
    await ask('DELETE', path)
  },
)
