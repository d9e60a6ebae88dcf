import assert from 'node:assert/strict'
import type { AdmittedCall } from '../calls/call-store.ts'
import { type Stores, testOnDatabases } from '../calls.fixture.ts'
import { artifactRecords } from './artifact-records.ts'
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
    keep: (text: string) =>
      keepPayload(text, { artifacts, callId: 'c1', owner: { tenant: 'acme', principal: 'ann' }, limits }),
    read: (given: Partial<AdmittedCall>) => readPayload(someCall(given), artifacts, signal),
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
})
