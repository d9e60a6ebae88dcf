import assert from 'node:assert/strict'
import { test } from 'node:test'
import { testCatalog } from '../conformance/catalog.ts'
import { sampleTool } from '../conformance/catalog-samples.ts'
import type { Embedder } from './embedder.ts'
import { memoryCatalog } from './memory.ts'

testCatalog('memory', () => memoryCatalog())

test('what a listener throws is reported', async () => {
  const errors: unknown[] = []
  const catalog = memoryCatalog({ onListenerError: (error) => errors.push(error) })
  catalog.subscribe(() => {
    throw 'now'
  })
  catalog.subscribe(async () => {
    throw 'later'
  })
  catalog.register(sampleTool())
  await Promise.resolve()
  assert.deepEqual(errors, ['now', 'later'])
})

test('ten thousand invented ids do not push a real one out of reach', () => {
  const catalog = memoryCatalog()
  const entry = catalog.register(sampleTool())
  for (let minor = 0; minor < 12_000; minor += 1) catalog.find(`math:add:<=1.${minor}`)
  assert.equal(catalog.find('math:add'), entry)
})

/** Knows a few words, each a direction of its own. */
const toyEmbedder: Embedder = {
  id: 'words',
  embed: async (texts) =>
    texts.map((text) => Float32Array.from(['red', 'blue', 'thing'], (word) => text.split(word).length - 1)),
}

testCatalog('memory with an embedder', () => memoryCatalog({ embedder: toyEmbedder }))
