import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sampleTool } from '@gantry/conformance/internal/catalog-pages'
import fc from 'fast-check'
import { digestOf } from '../json/canonical.ts'
import { CatalogHash, callDigest, toolDigest } from './digests.ts'

test('the tool digest covers description, title, version, schemas and annotations, and nothing else', () => {
  const base = toolDigest(sampleTool())
  const relied = [
    { description: 'x' },
    { title: 'x' },
    { version: '1.0.1' },
    { inputSchema: { type: 'object' } },
    { outputSchema: true },
    { annotations: { readOnlyHint: true } },
  ]
  for (const change of relied) assert.notEqual(toolDigest(sampleTool(change)), base)
  assert.equal(toolDigest(sampleTool({ timeoutMs: 5, tags: ['x'], effect: 'once', docs: 'x' })), base)
})

test('the call digest ignores texts for readers at any depth of the schema, and nothing else', () => {
  const digest = (inputSchema: object, rest: object = {}) =>
    callDigest(sampleTool({ inputSchema: inputSchema as { type: 'object' }, ...rest }))
  const schema = (texts: object, more: object = {}, names: object = {}) => ({
    ...{ type: 'object', ...texts },
    properties: { a: { type: 'string', ...texts, ...more }, ...names },
    $defs: { title: { anyOf: [{ items: { ...texts } }] } },
  })
  const base = digest(schema({}))
  const texts = { title: 'A', description: 'Of it.', $comment: 'c', examples: [1] }
  assert.equal(digest(schema(texts), { description: 'x', title: 'x', annotations: { readOnlyHint: true } }), base)
  for (const more of [{ default: { title: 'x' } }, { enum: ['x'] }, { const: { description: 1 } }, { minLength: 1 }]) {
    assert.notEqual(digest(schema({}, more)), base)
  }
  const description = { type: 'string' }
  assert.notEqual(digest(schema({}, {}, { description })), base, 'a member of that name')
  assert.notEqual(digest(schema({}, { const: { title: 1 } })), digest(schema({}, { const: { title: 2 } })))
  assert.notEqual(digest(schema({}), { version: '1.0.1' }), base)
  assert.notEqual(digest(schema({}), { outputSchema: { type: 'string' } }), base)
})

test('the digest ignores the order of keys and keeps the order of lists', () => {
  const digest = (inputSchema: object) => toolDigest(sampleTool({ inputSchema: inputSchema as { type: 'object' } }))
  assert.equal(digest({ type: 'object', a: 1, b: { c: 1, d: 2 } }), digest({ b: { d: 2, c: 1 }, a: 1, type: 'object' }))
  assert.notEqual(digest({ type: 'object', required: ['a', 'b'] }), digest({ type: 'object', required: ['b', 'a'] }))
})

test('two schemas have the same digest exactly when they are equal', () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.jsonValue(), (a, b) => {
      const [one, two] = [a, b].map((value) => toolDigest(sampleTool({ outputSchema: { value } })))
      assert.equal(one === two, digestOf(a) === digestOf(b))
    }),
  )
})

test('the catalog hash depends only on the set of digests', () => {
  const entries = Array.from({ length: 31 }, (_, number) => ({ digest: digestOf(number) }))
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.constantFrom(...entries), fc.boolean())), (changes) => {
      const hash = new CatalogHash()
      const model = new Set<{ digest: string }>()
      for (const [entry, read] of changes) {
        if (model.delete(entry)) hash.remove(entry)
        else {
          model.add(entry)
          hash.add(entry)
        }
        if (read) hash.read()
      }
      const fresh = new CatalogHash()
      for (const entry of entries.toReversed()) if (model.has(entry)) fresh.add(entry)
      assert.equal(hash.read(), fresh.read())
    }),
  )
})
