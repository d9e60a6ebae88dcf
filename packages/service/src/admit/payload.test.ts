import assert from 'node:assert/strict'
import type { JsonObject } from '@gantry/contract'
import { artifactRecords } from '../records/artifacts.ts'
import { type Stores, testOnDatabases } from '../records/calls.fixture.ts'
import type { AdmittedCall } from '../stores/call-store.ts'
import { resolveArtifactFiles } from './artifact-files.ts'
import { keepPayload, readPayload } from './payload.ts'

const { signal } = new AbortController()
const limits = { inlineBytes: 1_000, artifactBytes: 10_000 }

function someCall(given: Partial<AdmittedCall>): AdmittedCall {
  return {
    callId: 'c1',
    kind: 'call',
    identity: { principal: 'alice', tenant: 'acme', permissions: [] },
    fingerprint: 'f',
    tool: 'math:add:1.0.0',
    effect: 'read',
    payloadBytes: 0,
    ...given,
  }
}

function payloads({ database, store }: Stores) {
  const artifacts = artifactRecords(database, store)
  return {
    artifacts,
    keep: (text: string) => keepPayload(text, { artifacts, callId: 'c1', tenant: 'acme', limits }),
    read: (given: Partial<AdmittedCall>) => readPayload(someCall(given), artifacts, signal),
    file: async (content: string | Buffer, tenant = 'acme') => {
      const about = { tenant, holder: { callId: 'c0', fence: 1 }, name: 'a', mimeType: 'text/plain' }
      return (await artifacts.keep(Buffer.from(content), about, { maxBytes: 10_000, signal })).id
    },
  }
}

testOnDatabases({
  'a small payload stays in the row, a large one goes into a file, and both come back': async (stores) => {
    const { keep, read } = payloads(stores)
    const small = { text: 'x'.repeat(900) }
    const kept = await keep(JSON.stringify(small))
    assert.deepEqual(kept, { payload: JSON.stringify(small), payloadBytes: 911 })
    assert.deepEqual(await read(kept), small)
    const large = { text: `${'ä'.repeat(2_000)}\0\ud800` }
    const beside = await keep(JSON.stringify(large))
    assert.deepEqual(Object.keys(beside), ['payloadRef', 'payloadBytes'])
    assert.deepEqual(await read(beside), large)
    const rows = await stores.database.query('select tenant, call_id, fence, digest from artifacts')
    assert.deepEqual(rows, [{ tenant: 'acme', call_id: 'c1', fence: 0, digest: beside.payloadRef }])
  },

  'a payload is large by its bytes, and one that no file may hold is refused': async (stores) => {
    const { keep } = payloads(stores)
    assert.equal((await keep('x'.repeat(1_000))).payloadRef, undefined)
    assert.notEqual((await keep('ä'.repeat(501))).payloadRef, undefined)
    await assert.rejects(keep('x'.repeat(10_001)), { code: 'PAYLOAD_TOO_LARGE' })
  },

  'a payload that is gone is an error that another try does not mend': async (stores) => {
    const { keep, read } = payloads(stores)
    const kept = await keep(JSON.stringify({ text: 'x'.repeat(2_000) }))
    await stores.store.remove(kept.payloadRef ?? '')
    await assert.rejects(read(kept), { code: 'STORE_UNAVAILABLE', retryable: false })
  },

  'artifacts among the files of a sandbox are put in, byte for byte': async (stores) => {
    const { read, file } = payloads(stores)
    const bytes = Buffer.from([0, 255, 10, 13])
    const files = { 'a.txt': 'text', 'b.bin': { base64: '/w==' }, 'in/c.bin': { artifact: await file(bytes) } }
    for (const tool of ['code:run:1.0.0', 'shell:run', 'shell:run:2.0.0']) {
      const payload = JSON.stringify({ script: 'true', files })
      const args = await read({ tool, payload })
      const expected = { ...files, 'in/c.bin': { base64: bytes.toString('base64') } }
      assert.deepEqual(args, { script: 'true', files: expected }, tool)
    }
  },

  'the arguments of other tools stay as they are, whatever they look like': async (stores) => {
    const { read, file } = payloads(stores)
    const args = { files: { a: { artifact: await file('x') } } }
    for (const tool of ['code:runner:1.0.0', 'my:code:run', 'files:copy:1.0.0']) {
      assert.deepEqual(await read({ tool, payload: JSON.stringify(args) }), args, tool)
    }
    for (const odd of [{}, { files: null }, { files: [] }, { files: { a: null, b: { artifact: 1 }, c: [] } }]) {
      assert.deepEqual(await read({ tool: 'code:run', payload: JSON.stringify(odd) }), odd)
    }
  },

  'an artifact of another tenant is not found, like one that never was': async (stores) => {
    const { read, file } = payloads(stores)
    for (const artifact of [await file('theirs', 'other'), `art_${'0'.repeat(32)}`, '../../etc/passwd', '']) {
      const payload = JSON.stringify({ script: 'true', files: { a: 'x', b: { artifact } } })
      await assert.rejects(read({ tool: 'shell:run:1.0.0', payload }), { code: 'NOT_FOUND' })
    }
  },

  'more bytes than a sandbox takes are refused at the file that is too much, before anything is read': async (
    stores,
  ) => {
    const { artifacts, file } = payloads(stores)
    const [a, b] = [await file('a'.repeat(600)), await file('b'.repeat(600))]
    const args: JsonObject = { files: { a: { artifact: a }, 'b/~c': { artifact: b } } }
    const unread = { ...artifacts, open: () => assert.fail('it was read') }
    const refused = resolveArtifactFiles('code:run', args, {
      artifacts: unread,
      reader: 'acme',
      signal,
      maxBytes: 1_000,
    })
    await assert.rejects(refused, (error: { code: string; details: { issues: { path: string }[] } }) => {
      assert.deepEqual([error.code, error.details.issues[0]?.path], ['INPUT_INVALID', '/files/b~1~0c'])
      return true
    })
  },

  'the steps of a chain name artifacts too, also those that run at the same time': async (stores) => {
    const { read, file } = payloads(stores)
    const id = await file('hello')
    const step = (artifact: JsonObject | string) => ({ tool: 'code:run', args: { code: 'x', files: { a: artifact } } })
    const other = { tool: 'demo:echo', args: { files: { a: { artifact: id } } } }
    const named = step({ artifact: id })
    const payload = {
      steps: [named, other, { parallel: [named, other], concurrency: 1 }, { tool: 'code:run' }],
      input: 7,
    }
    const put = step({ base64: Buffer.from('hello').toString('base64') })
    assert.deepEqual(await read({ kind: 'chain', tool: 'chain', payload: JSON.stringify(payload) }), {
      steps: [put, other, { parallel: [put, other], concurrency: 1 }, { tool: 'code:run' }],
      input: 7,
    })
  },
})
