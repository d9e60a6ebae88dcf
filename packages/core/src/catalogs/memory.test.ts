import assert from 'node:assert/strict'
import { test } from 'node:test'
import { testCatalog } from '@gantry/conformance/internal/catalog'
import { sampleTool } from '@gantry/conformance/internal/catalog-pages'
import type { Embedder } from './embeddings.ts'
import { memoryCatalog } from './memory.ts'

testCatalog('memory', () => memoryCatalog())

test('an error thrown by a listener is passed to onListenerError', async () => {
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

test('a tool is still found after thousands of lookups of other ids', () => {
  const catalog = memoryCatalog()
  const entry = catalog.register(sampleTool())
  for (let minor = 0; minor < 12_000; minor += 1) catalog.find(`math:add:<=1.${minor}`)
  assert.equal(catalog.find('math:add'), entry)
})

test('the hash and the list do not depend on when they were first read', () => {
  const [asked, unasked] = [memoryCatalog(), memoryCatalog()]
  assert.deepEqual([asked.hash === '', asked.list().items], [false, []])
  for (const catalog of [asked, unasked]) {
    for (const name of ['c', 'a', 'gone', 'b']) catalog.register(sampleTool({ name }))
    catalog.register(sampleTool({ name: 'a', version: '2.0.0' }))
    catalog.update(sampleTool({ name: 'b', description: 'Changed.' }))
    catalog.unregister('math:gone')
  }
  const keys = ['math:a', 'math:b', 'math:c']
  for (const catalog of [asked, unasked])
    assert.deepEqual(
      catalog.list().items.map(({ key }) => key),
      keys,
    )
  assert.equal(unasked.hash, asked.hash)
})

test('a change of the catalog during the first search is visible to that search and the next', async () => {
  const catalog = memoryCatalog()
  for (let number = 0; number < 1_200; number += 1) catalog.register(sampleTool({ name: `filler_${number}` }))
  const searches = [catalog.search('zebra'), catalog.search('zebra')]
  await new Promise((resolve) => setImmediate(resolve))
  catalog.register(sampleTool({ name: 'new', description: 'A zebra.' }))
  catalog.update(sampleTool({ name: 'filler_0', description: 'A zebra.' }))
  catalog.update(sampleTool({ name: 'filler_1199', description: 'A zebra.' }))
  catalog.unregister('math:filler_1')
  const names = ['math:filler_0', 'math:filler_1199', 'math:new']
  for (const page of [...(await Promise.all(searches)), await catalog.search('zebra')]) {
    assert.deepEqual(page.items.map(({ entry }) => entry.key).sort(), names)
  }
  assert.deepEqual(
    (await catalog.search('filler_1')).items.some(({ entry }) => entry.key === 'math:filler_1'),
    false,
  )
})

test('after an aborted first search the next search completes the index', async () => {
  const catalog = memoryCatalog()
  for (let number = 0; number < 1_200; number += 1) catalog.register(sampleTool({ name: `filler_${number}` }))
  catalog.register(sampleTool({ name: 'last', description: 'A zebra.' }))
  const controller = new AbortController()
  const given = catalog.search('zebra', { signal: controller.signal })
  controller.abort()
  await assert.rejects(given, { code: 'CANCELLED' })
  assert.deepEqual(
    (await catalog.search('zebra')).items.map(({ entry }) => entry.key),
    ['math:last'],
  )
})

/** Knows a few words, each a direction of its own. */
const toyEmbedder: Embedder = {
  id: 'words',
  embed: async (texts) =>
    texts.map((text) => Float32Array.from(['red', 'blue', 'thing'], (word) => text.split(word).length - 1)),
}

testCatalog('memory with an embedder', () => memoryCatalog({ embedder: toyEmbedder }))
