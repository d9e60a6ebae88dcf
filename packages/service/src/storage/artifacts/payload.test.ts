import assert from 'node:assert/strict'
import { someCall as admittedCall } from '../../conformance/call-store/samples.ts'
import type { AdmittedCall } from '../calls/call-store.ts'
import { type Stores, testOnDatabases } from '../calls.fixture.ts'
import { artifactRecords } from './artifact-records.ts'
import { keepPayload, readPayload } from './payload.ts'

const { signal } = new AbortController()
const limits = { inlineBytes: 1_000, artifactBytes: 10_000 }

function someCall(given: Partial<AdmittedCall>): AdmittedCall {
  const { payload: _, ...call } = admittedCall('c1', { payloadBytes: 0 })
  return { ...call, ...given }
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
  'a small payload is kept in the row, a large one in an artifact, and both are read back': async (stores) => {
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

  'inlineBytes counts bytes, and a payload above artifactBytes is PAYLOAD_TOO_LARGE': async (stores) => {
    const { keep } = payloads(stores)
    assert.equal((await keep('x'.repeat(1_000))).payloadRef, undefined)
    assert.notEqual((await keep('ä'.repeat(501))).payloadRef, undefined)
    await assert.rejects(keep('x'.repeat(10_001)), { code: 'PAYLOAD_TOO_LARGE' })
  },

  'a payload whose artifact is missing is STORE_UNAVAILABLE and not retryable': async (stores) => {
    const { keep, read } = payloads(stores)
    const kept = await keep(JSON.stringify({ text: 'x'.repeat(2_000) }))
    await stores.store.remove(kept.payloadRef ?? '')
    await assert.rejects(read(kept), { code: 'STORE_UNAVAILABLE', retryable: false })
  },
})
