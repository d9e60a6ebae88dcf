import assert from 'node:assert/strict'
import { test } from 'node:test'
import { refuses, sampleTool } from '@gantry/conformance/internal/catalog-pages'
import { type DescribeOptions, describeTool, estimateTokens, firstSentences } from './describe.ts'
import { memoryCatalog } from './memory.ts'

const entry = memoryCatalog().register(
  sampleTool({
    title: 'Add',
    description: `Adds two numbers. ${'It is exact. '.repeat(30)}`,
    tags: ['math'],
    docs: 'd'.repeat(400),
    examples: [
      { title: 'One', args: { a: 1 } },
      { title: 'Two', args: { a: 2 } },
    ],
    permissions: ['math:use'],
    inputSchema: {
      type: 'object',
      properties: { a: { type: 'number' }, b: { type: 'number', default: 2 } },
      required: ['a'],
    },
  }),
)
const versions = ['1.0.0']

test('the summary level holds id, version, title, summary, tags and effect', () => {
  const doc = describeTool(entry)
  assert.deepEqual(Object.keys(doc).sort(), ['effect', 'id', 'omitted', 'summary', 'tags', 'title', 'version'])
  assert.deepEqual([doc.id, doc.version], ['math:add', '1.0.0'])
  assert.ok(doc.summary.length <= 200 && doc.summary.startsWith('Adds two numbers. It is exact.'))
})

test('the schema level adds digest, input schema, required arguments and defaults', () => {
  const doc = describeTool(entry, { level: 'schema' })
  assert.equal(doc.digest, entry.digest)
  assert.equal(doc.inputSchema, entry.tool.inputSchema)
  assert.deepEqual([doc.required, doc.defaults], [['a'], { b: 2 }])
  assert.equal(doc.examples, undefined)
})

test('the full level adds description, examples, versions and permissions', () => {
  const doc = describeTool(entry, { level: 'full', versions })
  assert.equal(doc.description, entry.tool.description)
  assert.equal(doc.examples?.length, 2)
  assert.deepEqual([doc.versions, doc.permissions, doc.omitted], [versions, ['math:use'], []])
})

test('examples can be requested at any level, and disabled', () => {
  assert.equal(describeTool(entry, { examples: 1 }).examples?.length, 1)
  assert.equal(describeTool(entry, { level: 'full', examples: 0 }).examples, undefined)
})

test('a token budget omits parts in a fixed order and lists them in omitted', () => {
  const full = describeTool(entry, { level: 'full', versions })
  const order = ['docs', 'examples', 'versions', 'permissions', 'description', 'tags', 'defaults', 'required']
  for (let maxTokens = estimateTokens(full); maxTokens > 0; maxTokens -= 1) {
    const doc = describeTool(entry, { level: 'full', versions, maxTokens })
    if (doc.omitted.length < 9) assert.ok(estimateTokens(doc) <= maxTokens)
    assert.deepEqual([doc.id, doc.version], ['math:add', '1.0.0'])
    for (const part of doc.omitted) assert.equal(doc[part], undefined)
    const inOrder = [...order, 'inputSchema'].filter((part) => doc.omitted.some((omitted) => omitted === part))
    assert.deepEqual(doc.omitted, inOrder)
  }
  assert.deepEqual(describeTool(entry, { level: 'full', versions, maxTokens: 1 }).omitted, [...order, 'inputSchema'])
})

test('no part is omitted that still fits the token budget', () => {
  const full = describeTool(entry, { level: 'full', versions })
  for (let maxTokens = estimateTokens(full); maxTokens > 0; maxTokens -= 1) {
    const doc = describeTool(entry, { level: 'full', versions, maxTokens })
    for (const part of doc.omitted) {
      const more = { ...doc, [part]: full[part], omitted: doc.omitted.filter((each) => each !== part) }
      assert.ok(estimateTokens(more) > maxTokens, `${part} fits into ${maxTokens}`)
    }
  }
  const withoutDocs = estimateTokens({ ...full, docs: undefined, description: undefined, omitted: ['description'] })
  const { omitted } = describeTool(entry, { level: 'full', versions, maxTokens: withoutDocs + 5 })
  assert.deepEqual(omitted, ['docs', 'description'])
})

for (const [options, path, hint] of [
  [{ level: 'ful' }, '/level', /one of summary, types, schema, full \(did you mean "full"\?\)/],
  [{ level: 'brief' }, '/level', /one of summary, types, schema, full/],
  [{ level: null }, '/level', /one of summary, types, schema, full/],
  [{ maxTokens: 0 }, '/maxTokens', /whole number of at least 1/],
  [{ maxTokens: 1.5 }, '/maxTokens', /whole/],
  [{ maxTokens: '100' }, '/maxTokens', /whole/],
  [{ maxTokens: Number.NaN }, '/maxTokens', /whole/],
  [{ examples: -1 }, '/examples', /whole number of at least 0/],
  [{ examples: true }, '/examples', /whole/],
] as const) {
  test(`describing with ${JSON.stringify(options)} is refused at ${path}`, () => {
    const act = () => describeTool(entry, options as unknown as DescribeOptions)
    assert.match(refuses(act, 'INPUT_INVALID', path).message, hint)
  })
}

test('options that are undefined count as absent', () => {
  const options = { level: undefined, maxTokens: undefined, examples: undefined, versions: undefined }
  assert.deepEqual(describeTool(entry, options), describeTool(entry))
})

for (const [description, summary] of [
  ['Adds.', 'Adds.'],
  ['Adds.\n\nMore.', 'Adds.'],
  ['Adds\u001b[31m  two\nnumbers.', 'Adds [31m two numbers.'],
  [`${'a'.repeat(150)} v1.5 ${'b'.repeat(100)}`, `${'a'.repeat(150)} v1.5…`],
  [`First. ${'b'.repeat(300)}`, 'First.'],
] as const) {
  test(`the summary of ${JSON.stringify(description.slice(0, 30))} ends at a sentence or a word`, () => {
    assert.equal(firstSentences(description), summary)
  })
}

test('the summary of one overlong word is truncated and well-formed', () => {
  const summary = firstSentences('😀'.repeat(1_000))
  assert.ok(summary.length <= 200 && summary.isWellFormed())
})
