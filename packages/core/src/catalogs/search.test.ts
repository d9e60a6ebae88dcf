import assert from 'node:assert/strict'
import { mock, test } from 'node:test'
import { refuses, sampleTool } from '@gantry/conformance/internal/catalog-pages'
import { type Tool, ToolError } from '@gantry/contract'
import type { Catalog } from './catalog.ts'
import type { Embedder } from './embeddings.ts'
import { memoryCatalog } from './memory.ts'

/** Knows three meanings; texts about the same one point the same way. */
class ToyEmbedder implements Embedder {
  readonly id = 'toy-1'
  readonly texts: string[] = []
  calls = 0
  failing = false

  async embed(texts: readonly string[], signal: AbortSignal): Promise<readonly Float32Array[]> {
    signal.throwIfAborted()
    this.calls += 1
    if (this.failing) throw new Error('the model is unavailable')
    this.texts.push(...texts)
    return texts.map((text) =>
      Float32Array.from([/mail|letter|correspond/, /money|invoice|bill/, /weather|rain|forecast/], (meaning) =>
        meaning.test(text.toLowerCase()) ? 3 : 0,
      ),
    )
  }
}

const tools: readonly Tool[] = [
  sampleTool({ namespace: 'post', name: 'send', description: 'Sends a letter.' }),
  sampleTool({ namespace: 'pay', name: 'charge', description: 'Charges an invoice.' }),
  sampleTool({ namespace: 'sky', name: 'look', description: 'Tells the forecast.' }),
]

function catalogWith(embedder: Embedder): Catalog {
  const catalog = memoryCatalog({ embedder })
  for (const tool of tools) catalog.register(tool)
  return catalog
}

async function keys(catalog: Catalog, query: string): Promise<string[]> {
  return (await catalog.search(query)).items.map(({ entry }) => entry.key)
}

test('an embedder finds tools that share no word with the query', async () => {
  const catalog = catalogWith(new ToyEmbedder())
  assert.deepEqual(await keys(catalog, 'correspondence'), ['post:send'])
  assert.deepEqual(await keys(memoryCatalogOf(tools), 'correspondence'), [])
})

test('a tool that matches by word and by embedding outranks one that matches by embedding alone', async () => {
  const catalog = catalogWith(new ToyEmbedder())
  catalog.register(sampleTool({ namespace: 'old', name: 'rain', description: 'Makes a noise.' }))
  catalog.register(sampleTool({ namespace: 'sky', name: 'rain', description: 'Tells the weather.' }))
  const found = await keys(catalog, 'rain')
  assert.ok(found.indexOf('sky:rain') < found.indexOf('sky:look'))
  assert.equal(found.length, 3)
})

test('a tool is embedded once and again when it changes, and a query is embedded once', async () => {
  const embedder = new ToyEmbedder()
  const catalog = catalogWith(embedder)
  await catalog.search('mail')
  await catalog.search('mail')
  assert.equal(embedder.texts.length, tools.length + 1)
  catalog.update(sampleTool({ namespace: 'post', name: 'send', description: 'Sends money.' }))
  catalog.update({
    ...sampleTool({ namespace: 'pay', name: 'charge', description: 'Charges an invoice.' }),
    timeoutMs: 9,
  })
  await catalog.search('mail')
  assert.equal(embedder.texts.length, tools.length + 2)
})

test('with a failing embedder the search falls back to words and returns a warning', async () => {
  const embedder = new ToyEmbedder()
  embedder.failing = true
  const page = await catalogWith(embedder).search('letter')
  assert.deepEqual(
    page.items.map(({ entry }) => entry.key),
    ['post:send'],
  )
  assert.equal(page.warning?.code, 'BACKEND_UNAVAILABLE')
})

for (const [title, vectors] of [
  ['too few vectors', () => []],
  ['vectors that are not finite', (texts: readonly string[]) => texts.map(() => Float32Array.of(Number.NaN))],
  ['vectors of different lengths', (texts: readonly string[]) => texts.map((_, at) => new Float32Array(at + 1))],
  ['lists instead of vectors', (texts: readonly string[]) => texts.map(() => [1, 2] as unknown as Float32Array)],
] as const) {
  test(`an embedder that returns ${title} counts as failing`, async () => {
    const catalog = catalogWith({ id: 'bad', embed: async (texts) => vectors(texts) })
    const page = await catalog.search('letter')
    assert.equal(page.items.length, 1)
    assert.equal(page.warning?.code, 'BACKEND_UNAVAILABLE')
  })
}

test('pages of an embedding search stay stable while tools are registered and unregistered', async () => {
  const catalog = memoryCatalog({ embedder: new ToyEmbedder() })
  const tool = (name: string, text: string) => sampleTool({ namespace: 'x', name, description: text })
  for (let at = 10; at < 30; at += 1) catalog.register(tool(`t${at}`, at % 2 === 0 ? 'A letter.' : 'A mail.'))
  const promised = (await catalog.search('mail', { limit: 100 })).items.map(({ entry }) => entry.key)
  const seen: string[] = []
  let cursor: string | undefined
  for (let round = 0; ; round += 1) {
    const page = await catalog.search('mail', { limit: 3, ...(cursor === undefined ? {} : { cursor }) })
    seen.push(...page.items.map(({ entry }) => entry.key))
    cursor = page.cursor
    if (cursor === undefined) break
    catalog.register(tool(`new${round}`, 'mail mail mail'))
    catalog.unregister('x:t29')
  }
  assert.equal(promised.length, 20)
  const stays = (key: string) => key !== 'x:t29' && !key.startsWith('x:new')
  assert.deepEqual(seen.filter(stays), promised.filter(stays))
})

test('an embedding cursor works while new tools cannot be embedded, and a word cursor keeps searching by words', async () => {
  const embedder = new ToyEmbedder()
  const catalog = catalogWith(embedder)
  catalog.register(sampleTool({ namespace: 'post', name: 'mail', description: 'A mail.' }))
  const first = await catalog.search('mail', { limit: 1 })
  embedder.failing = true
  catalog.register(sampleTool({ namespace: 'post', name: 'late', description: 'A mail.' }))
  const second = await catalog.search('mail', { limit: 1, ...(first.cursor ? { cursor: first.cursor } : {}) })
  assert.equal(second.warning?.code, 'BACKEND_UNAVAILABLE')
  assert.equal(second.items.length, 1)
  const words = await catalog.search('a mail', { limit: 1 })
  assert.equal(words.warning?.code, 'BACKEND_UNAVAILABLE')
  embedder.failing = false
  const more = await catalog.search('a mail', { limit: 1, ...(words.cursor ? { cursor: words.cursor } : {}) })
  assert.equal(more.warning, undefined)
  assert.equal(more.items.length, 1)
})

test('an abort while embedding fails the search with CANCELLED', async () => {
  const controller = new AbortController()
  const catalog = catalogWith({
    id: 'slow',
    embed: (_, signal) =>
      new Promise((_, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason), { once: true })
        controller.abort()
      }),
  })
  await assert.rejects(
    catalog.search('letter', { signal: controller.signal }),
    (error) => ToolError.is(error) && error.code === 'CANCELLED',
  )
})

/** Never answers and ignores its signal. */
class UnresponsiveEmbedder implements Embedder {
  readonly id = 'unresponsive'
  readonly signals: AbortSignal[] = []
  readonly asked = Promise.withResolvers<void>()

  embed(_: readonly string[], signal: AbortSignal): Promise<never> {
    this.signals.push(signal)
    this.asked.resolve()
    return new Promise(() => undefined)
  }
}

test('an embedder that does not answer within embedMs is aborted, and the search falls back to words', async () => {
  const embedder = new UnresponsiveEmbedder()
  const catalog = memoryCatalog({ embedder, embedMs: 5 })
  for (const tool of tools) catalog.register(tool)
  const page = await catalog.search('letter')
  assert.deepEqual(
    page.items.map(({ entry }) => entry.key),
    ['post:send'],
  )
  assert.equal(page.warning?.code, 'BACKEND_UNAVAILABLE')
  assert.deepEqual(
    embedder.signals.map(({ aborted }) => aborted),
    [true],
  )
})

test('embedMs defaults to ten seconds', async () => {
  mock.timers.enable({ apis: ['setTimeout'] })
  try {
    const embedder = new UnresponsiveEmbedder()
    const search = catalogWith(embedder).search('letter')
    await embedder.asked.promise
    mock.timers.tick(9_999)
    assert.equal(embedder.signals[0]?.aborted, false)
    mock.timers.tick(1)
    assert.equal((await search).warning?.code, 'BACKEND_UNAVAILABLE')
  } finally {
    mock.timers.reset()
  }
})

test('an embedder that rejects after its timeout causes no unhandled rejection', async () => {
  const late = Promise.withResolvers<never>()
  const catalog = memoryCatalog({ embedder: { id: 'late', embed: () => late.promise }, embedMs: 1 })
  catalog.register(sampleTool())
  await catalog.search('add')
  late.reject(new Error('too late'))
  await new Promise((resolve) => setImmediate(resolve))
})

test('an abort fails a search with CANCELLED even when the embedder ignores its signal', async () => {
  const controller = new AbortController()
  const embedder = new UnresponsiveEmbedder()
  const search = catalogWith(embedder).search('letter', { signal: controller.signal })
  await embedder.asked.promise
  controller.abort(new Error('enough'))
  await assert.rejects(search, (error) => ToolError.is(error) && error.code === 'CANCELLED')
  assert.equal(embedder.signals[0]?.aborted, true)
})

test('an invalid embedMs is refused', () => {
  for (const embedMs of [0, -1, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 31, '5' as unknown as number]) {
    refuses(() => memoryCatalog({ embedMs }), 'CONFIG_INVALID', '/embedMs')
  }
})

function memoryCatalogOf(list: readonly Tool[]): Catalog {
  const catalog = memoryCatalog()
  for (const tool of list) catalog.register(tool)
  return catalog
}
