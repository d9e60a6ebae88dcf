import assert from 'node:assert/strict'
import { test } from 'node:test'
import { definitionHash } from '@gantry/core/internal/pins/definition'
import type { PinStore, Pins } from '@gantry/core/internal/pins/pin'

const signal = new AbortController().signal

/** Pins of one tool with the given description. */
export function somePins(description: string): Pins {
  const definition = { name: 'read', description, inputSchema: { type: 'object' } }
  return { read: { hash: definitionHash(definition), definition, at: '2026-01-01T00:00:00.000Z', by: 'first-use' } }
}

/** The contract of PinStore. */
export function testPinStore(name: string, create: () => PinStore): void {
  test(`${name}: knows nothing of a source that was never saved, inherited names included`, async () => {
    const store = create()
    for (const source of ['mcp:files', 'toString', 'constructor']) {
      assert.equal(await store.load(source, signal), undefined, source)
    }
  })

  test(`${name}: gives back what was saved last, source by source`, async () => {
    const store = create()
    await store.save('mcp:files', somePins('Reads.'), signal)
    await store.save('mcp:notes', somePins('Notes.'), signal)
    await store.save('mcp:files', somePins('Reads a file.'), signal)
    assert.deepEqual(await store.load('mcp:files', signal), somePins('Reads a file.'))
    assert.deepEqual(await store.load('mcp:notes', signal), somePins('Notes.'))
  })

  test(`${name}: saves at the same time all arrive`, async () => {
    const store = create()
    const sources = ['mcp:a', 'mcp:b', 'mcp:c', 'mcp:d']
    await Promise.all(sources.map((source) => store.save(source, somePins(source), signal)))
    for (const source of sources) assert.deepEqual(await store.load(source, signal), somePins(source))
  })

  test(`${name}: a save adds to what the source has, and takes the place of the same tool only`, async () => {
    const store = create()
    const { read } = somePins('Reads.')
    const { read: changed } = somePins('Reads a file.')
    assert.ok(read !== undefined && changed !== undefined)
    await store.save('mcp:files', { read }, signal)
    await Promise.all([
      store.save('mcp:files', { list: read }, signal),
      store.save('mcp:files', { read: changed }, signal),
    ])
    assert.deepEqual(await store.load('mcp:files', signal), { read: changed, list: read })
    await store.save('mcp:files', {}, signal)
    assert.deepEqual(await store.load('mcp:files', signal), { read: changed, list: read })
    await store.save('mcp:empty', {}, signal)
    assert.deepEqual(await store.load('mcp:empty', signal), {}, 'it was seen')
  })

  test(`${name}: an aborted signal ends both ways`, async () => {
    const store = create()
    await assert.rejects(store.load('mcp:files', AbortSignal.abort(new Error('enough'))))
    await assert.rejects(store.save('mcp:files', {}, AbortSignal.abort(new Error('enough'))))
  })
}
