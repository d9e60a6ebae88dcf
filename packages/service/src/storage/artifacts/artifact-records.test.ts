import assert from 'node:assert/strict'
import { text } from 'node:stream/consumers'
import { ToolError } from '@gantry/contract'
import { addRows, someCall, someEnd, testOnDatabases } from '../calls.fixture.ts'
import { areArtifactsUnavailable, artifactRecords } from './artifact-records.ts'
import type { ArtifactStore } from './artifact-store.ts'

const { signal } = new AbortController()
const options = { maxBytes: 1_000, signal }
const holder = { callId: 'c1', fence: 2 }
const about = { tenant: 'acme', principal: 'ann', holder, name: 'notes.txt', mimeType: 'text/plain' }

testOnDatabases({
  'an artifact is found by its id and read completely or by range': async ({ database, store }) => {
    const artifacts = artifactRecords(database, store)
    const kept = await artifacts.keep(Buffer.from('hello world'), about, options)
    assert.match(kept.id, /^art_[0-9a-f]{32}$/)
    assert.deepEqual(await artifacts.find(kept.id, 'acme'), kept)
    const { artifact, content } = await artifacts.open(kept.id, 'acme', undefined, signal)
    assert.deepEqual([artifact, await text(content)], [kept, 'hello world'])
    const part = await artifacts.open(kept.id, 'acme', { start: 6, end: 9 }, signal)
    assert.equal(await text(part.content), 'wor')
    assert.equal(await text(await artifacts.content(kept.digest, signal)), 'hello world')
    const rows = await database.query('select call_id, fence, name, mime_type, bytes from artifacts')
    assert.deepEqual(rows, [{ call_id: 'c1', fence: 2, name: 'notes.txt', mime_type: 'text/plain', bytes: 11 }])
  },

  'an id of another tenant, an unknown id and a hostile id are NOT_FOUND': async ({ database, store }) => {
    const artifacts = artifactRecords(database, store)
    const { id, digest } = await artifacts.keep(Buffer.from('hello'), about, options)
    await artifacts.find(id, 'acme')
    const wrong: readonly (readonly [string, string])[] = [
      [id, 'other'],
      [id, ''],
      [digest, 'acme'],
      [`art_${'0'.repeat(32)}`, 'acme'],
      [`${id}\0`, 'acme'],
      ["art_' or true --", 'acme'],
      ['', 'acme'],
    ]
    for (const [other, tenant] of wrong) {
      await assert.rejects(artifacts.find(other, tenant), { code: 'NOT_FOUND' })
      await assert.rejects(artifacts.open(other, tenant, undefined, signal), { code: 'NOT_FOUND' })
    }
  },

  'the same content of two tenants is one file and two artifacts': async ({ database, store, files }) => {
    const artifacts = artifactRecords(database, store)
    const one = await artifacts.keep(Buffer.from('same'), about, options)
    const two = await artifacts.keep(Buffer.from('same'), { ...about, tenant: 'other' }, options)
    assert.equal(one.digest, two.digest)
    assert.notEqual(one.id, two.id)
    assert.equal(await files(), 1)
    await assert.rejects(artifacts.find(one.id, 'other'), { code: 'NOT_FOUND' })
  },

  'the payload of a call is removed when the call was not admitted or has ended, and kept for a redrive': async (
    stores,
  ) => {
    const { database, store, files } = stores
    const artifacts = artifactRecords(database, store)
    const callIds = ['lost', 'running', 'dead', 'ended', 'first', 'redriven']
    const digests = new Map<string, string>()
    for (const callId of callIds) {
      const own = { ...about, holder: { callId, fence: 0 }, name: 'payload.json' }
      const content = callId === 'redriven' ? 'arguments of first' : `arguments of ${callId}`
      digests.set(callId, (await artifacts.keep(Buffer.from(content), own, options)).digest)
    }
    const shown = { ...about, holder: { callId: 'ended', fence: 0 }, name: 'approval.json' }
    await artifacts.keep(Buffer.from('as it was shown'), shown, options)
    await database.query(`delete from artifacts where call_id = 'redriven'`)
    const ref = (callId: string) => ({ payload: null, payload_ref: digests.get(callId) })
    await addRows(
      database,
      'calls',
      callIds.slice(1).map((callId) => someCall(callId, ref(callId))),
    )
    await addRows(
      database,
      'results',
      ['dead', 'ended', 'first', 'redriven'].map((callId) => someEnd(callId)),
    )
    const deadLetter = { source: 'call', reason: 'r', code: 'INTERNAL', deliveries: 1 }
    for (const callId of ['dead', 'first']) {
      await addRows(database, 'dead_letters', [{ id: callId, tenant: 'acme', call_id: callId, ...deadLetter }])
    }
    for (const callId of callIds) {
      await artifacts.withdraw(callId)
      await artifacts.spend(callId)
    }
    const left = await database.query<{ call_id: string; name: string }>(
      'select call_id, name from artifacts order by call_id',
    )
    assert.deepEqual(
      left.map(({ call_id, name }) => `${call_id} ${name}`),
      ['dead payload.json', 'ended approval.json', 'first payload.json', 'running payload.json'],
    )
    assert.equal(await files(), 4)
    for (const callId of ['dead', 'first', 'running']) {
      assert.equal(await text(await artifacts.content(digests.get(callId) ?? '', signal)), `arguments of ${callId}`)
    }
  },

  'names and MIME types from a tool are sanitized': async ({ database, store }) => {
    const artifacts = artifactRecords(database, store)
    const keep = async (name: string, mimeType: string): Promise<readonly string[]> => {
      const kept = await artifacts.keep(Buffer.from('x'), { ...about, name, mimeType }, options)
      assert.deepEqual(await artifacts.find(kept.id, 'acme'), kept)
      return [kept.name, kept.mimeType]
    }
    assert.deepEqual(await keep('a\r\nb\0.txt', 'text/html\r\nx: y'), ['ab.txt', 'application/octet-stream'])
    assert.deepEqual(await keep('', 'Text/HTML; charset=utf-8'), ['file', 'text/html'])
    assert.deepEqual(await keep(`${'x'.repeat(300)}.png`, ''), [`${'x'.repeat(196)}.png`, 'application/octet-stream'])
  },

  'keep() writes no row for a file that the store refused': async ({ database, store }) => {
    const full = new ToolError('STORE_UNAVAILABLE', 'The disk is full.')
    const failing: ArtifactStore = { ...store, put: () => Promise.reject(full) }
    const kept = artifactRecords(database, failing).keep(Buffer.from('x'), about, options)
    const failure = await kept.catch((error: unknown) => error)
    assert.ok(areArtifactsUnavailable(failure))
    assert.equal(failure.message, 'The disk is full.')
    await assert.rejects(artifactRecords(database, store).keep(Buffer.alloc(1_001), about, options), {
      code: 'RESULT_TOO_LARGE',
    })
    assert.deepEqual(await database.query('select id from artifacts'), [])
  },

  'a database error is not reported as an unavailable artifact store': async ({ database, owner, store }) => {
    await owner.query('alter table artifacts rename to elsewhere')
    const failure = await artifactRecords(database, store)
      .keep(Buffer.from('x'), about, options)
      .catch((error: unknown) => error)
    await owner.query('alter table elsewhere rename to artifacts')
    assert.ok(ToolError.is(failure))
    assert.equal(areArtifactsUnavailable(failure), false)
  },

  'keep() puts a file again that was removed before its row was committed': async ({ database, store, files }) => {
    const late: ArtifactStore = {
      ...store,
      async put(content, put) {
        const file = await store.put(content, put)
        // Simulates a concurrent removal of the last other row of the same content.
        if (puts++ === 0) await store.remove(file.digest)
        return file
      },
    }
    let puts = 0
    const { digest } = await artifactRecords(database, late).keep(Buffer.from('contested'), about, options)
    assert.equal(await store.has(digest, signal), true)
    assert.deepEqual([puts, await files()], [2, 1])
  },
})
