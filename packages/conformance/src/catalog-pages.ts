import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Tool, ToolError } from '@gantry/contract'
import type { Catalog, ListQuery, SearchOptions } from '@gantry/core/internal/catalogs/catalog'
import fc from 'fast-check'

/** Lists and their pages. */
export function testLists(create: () => Catalog): void {
  test('a list is ordered by key, has the version that the key resolves to, and filters', () => {
    const catalog = filled(create())
    assert.deepEqual(
      catalog.list().items.map(({ id }) => id),
      ['a:one:2.0.0', 'a:two:1.0.0', 'b:one:1.0.0-beta'],
    )
    assert.deepEqual(
      catalog.list({ allVersions: true }).items.map(({ id }) => id),
      ['a:one:2.0.0', 'a:one:1.0.0', 'a:two:1.0.0', 'b:one:1.0.0-beta'],
    )
    assert.deepEqual(
      catalog.list({ namespace: 'b' }).items.map(({ key }) => key),
      ['b:one'],
    )
    assert.deepEqual(
      catalog.list({ tag: 'Blue Sky' }).items.map(({ key }) => key),
      ['a:two'],
    )
    assert.deepEqual(
      catalog.list({ toolset: { deny: ['a:*'] } }).items.map(({ key }) => key),
      ['b:one'],
    )
    assert.deepEqual(
      catalog.list({ allow: ({ key }) => key === 'a:two' }).items.map(({ key }) => key),
      ['a:two'],
    )
    assert.deepEqual(catalog.namespaces(), [
      { namespace: 'a', tools: 2 },
      { namespace: 'b', tools: 1 },
    ])
  })

  test('pages of every version join to the whole list', () => {
    const catalog = filled(create())
    const ids: string[] = []
    let cursor: string | undefined
    do {
      const page = catalog.list({ allVersions: true, limit: 1, ...(cursor === undefined ? {} : { cursor }) })
      ids.push(...page.items.map(({ id }) => id))
      cursor = page.cursor
    } while (cursor !== undefined)
    assert.deepEqual(
      ids,
      catalog.list({ allVersions: true }).items.map(({ id }) => id),
    )
  })

  test('a limit out of bounds is refused', () => {
    refuses(() => create().list({ limit: 0 }), 'INPUT_INVALID', '/limit')
    refuses(() => create().list({ limit: 1_001 }), 'INPUT_INVALID', '/limit')
  })

  test('an option of another type is refused at its path, in lists and searches', async () => {
    const catalog = filled(create())
    for (const [option, values] of [
      ['limit', ['5', 1.5, null, Number.NaN]],
      ['cursor', [5, null, {}]],
      ['namespace', [5, null, ['a']]],
      ['tag', [5, null, ['a']]],
      ['toolset', [5, null, 'a:*', ['a:*'], { denny: ['a:*'] }, { deny: ['a'] }, { deny: [] }]],
    ] as const) {
      for (const value of values) {
        const query = { [option]: value } as ListQuery & SearchOptions
        assert.ok(pathOf(() => catalog.list(query)).startsWith(`/${option}`))
        for (const text of ['', 'thing']) await rejects(catalog.search(text, query), 'INPUT_INVALID')
      }
    }
  })

  test('undefined options are treated as absent', async () => {
    const catalog = filled(create())
    const none = { limit: undefined, cursor: undefined, namespace: undefined, tag: undefined, toolset: undefined }
    const query = { ...none, allow: undefined, allVersions: undefined, signal: undefined }
    assert.deepEqual(catalog.list(query), catalog.list())
    assert.deepEqual(await catalog.search('thing', query), await catalog.search('thing'))
  })
}

/** Searches and their pages. */
export function testSearch(create: () => Catalog): void {
  test('a search ranks a name above a mention, and a deprecated tool below an equal one', async () => {
    const catalog = create()
    catalog.register(sampleTool({ namespace: 'github', name: 'create_issue', description: 'Opens a ticket.' }))
    catalog.register(sampleTool({ namespace: 'notes', name: 'write', description: 'Writes a note about an issue.' }))
    const old = { deprecated: { message: 'Use github:create_issue.' } }
    catalog.register(sampleTool({ namespace: 'github', name: 'add_issue', description: 'Opens a ticket.', ...old }))
    const { items } = await catalog.search('issue')
    assert.equal(items[0]?.entry.key, 'github:create_issue')
    assert.equal(items.length, 3)
    assert.ok(items.findIndex(({ entry }) => entry.key === 'github:add_issue') > 0)
  })

  test('a search finds the updated text, and nothing of the replaced text', async () => {
    const catalog = create()
    catalog.register(sampleTool())
    catalog.update(sampleTool({ description: 'Sums up quantities.' }))
    assert.equal((await catalog.search('quantities')).items.length, 1)
    assert.equal((await catalog.search('numbers')).items.length, 0)
    catalog.unregister('math:add')
    assert.equal((await catalog.search('quantities')).items.length, 0)
  })

  test('a search finds a tool by the aliases of any version, ranked below a tool of that name', async () => {
    const catalog = create()
    catalog.register(sampleTool({ aliases: ['sum:zusammenrechnen'] }))
    catalog.register(sampleTool({ version: '2.0.0' }))
    catalog.register(sampleTool({ namespace: 'other', name: 'zusammenrechnen', description: 'Another.' }))
    const found = async () => (await catalog.search('zusammenrechnen')).items.map(({ entry }) => entry.id)
    assert.deepEqual(await found(), ['other:zusammenrechnen:1.0.0', 'math:add:2.0.0'])
    catalog.unregister('math:add:1.0.0')
    assert.deepEqual(await found(), ['other:zusammenrechnen:1.0.0'])
  })

  test('an empty query lists by key', async () => {
    const page = await filled(create()).search('  ', { limit: 2 })
    assert.deepEqual(
      page.items.map(({ entry, score }) => [entry.key, score]),
      [
        ['a:one', 0],
        ['a:two', 0],
      ],
    )
    assert.notEqual(page.cursor, undefined)
  })

  test('a cursor of another query or other filters, or a forged one, is refused', async () => {
    const catalog = filled(create())
    const { cursor = '' } = await catalog.search('thing', { limit: 1 })
    assert.notEqual(cursor, '')
    await rejects(catalog.search('other', { cursor }), 'INPUT_INVALID', '/cursor')
    await rejects(catalog.search('thing', { cursor, namespace: 'a' }), 'INPUT_INVALID', '/cursor')
    await rejects(catalog.search('', { cursor }), 'INPUT_INVALID', '/cursor')
    const forged = [
      '',
      'x',
      '!',
      'a'.repeat(100_000),
      ...['null', '[]', '["s1"]', '["s1","",1e999]', '{}'].map(encoded),
    ]
    for (const wrong of forged) await rejects(catalog.search('thing', { cursor: wrong }), 'INPUT_INVALID', '/cursor')
    for (const wrong of forged) refuses(() => catalog.list({ cursor: wrong }), 'INPUT_INVALID', '/cursor')
  })

  test('an aborted search is CANCELLED', async () => {
    await rejects(filled(create()).search('thing', { signal: AbortSignal.abort() }), 'CANCELLED')
  })

  for (const [title, query] of [
    ['a search', 'red thing'],
    ['a listing', ''],
  ] as const) {
    test(`pages of ${title} neither repeat nor skip a tool that stays, whatever is added or removed between them`, async () => {
      const word = fc.constantFrom('red', 'thing', 'blue', 'redder', 'things')
      const text = fc.array(word, { minLength: 1, maxLength: 4 }).map((words) => words.join(' '))
      const change = fc.record({ name: fc.nat(40), text, remove: fc.boolean() })
      await fc.assert(
        fc.asyncProperty(
          fc.array(text, { minLength: 1, maxLength: 30 }),
          fc.array(fc.array(change, { maxLength: 8 }), { maxLength: 12 }),
          fc.integer({ min: 1, max: 4 }),
          fc.constantFrom(1, 2),
          (texts, rounds, limit, modulo) => checkPages(create(), query, texts, rounds, limit, modulo),
        ),
        { numRuns: 60 },
      )
    })
  }
}

function pathOf(act: () => unknown): string {
  return refuses(act, 'INPUT_INVALID').details?.issues?.[0]?.path ?? ''
}

interface Change {
  readonly name: number
  readonly text: string
  readonly remove: boolean
}

/** Walks all pages while tools come and go, then compares with what the first state promised. */
async function checkPages(
  catalog: Catalog,
  query: string,
  texts: readonly string[],
  rounds: readonly (readonly Change[])[],
  limit: number,
  modulo: number,
): Promise<void> {
  const tool = (name: number, description: string) => sampleTool({ namespace: 's', name: `t${name}`, description })
  const allow = ({ tool: { name } }: { tool: Tool }) => Number(name.slice(1)) % modulo === 0
  texts.forEach((text, index) => {
    catalog.register(tool(index, text))
  })
  const promised = (await catalog.search(query, { limit: 100, allow })).items.map(({ entry }) => entry.key)
  const touched = new Set<string>()
  const seen: string[] = []
  let cursor: string | undefined
  for (let round = 0; ; round += 1) {
    const page = await catalog.search(query, { limit, allow, ...(cursor === undefined ? {} : { cursor }) })
    seen.push(...page.items.map(({ entry }) => entry.key))
    cursor = page.cursor
    if (cursor === undefined) break
    for (const change of rounds[round] ?? []) {
      touched.add(`s:t${change.name}`)
      if (change.remove) catalog.unregister(`s:t${change.name}`)
      else catalog.update(tool(change.name, change.text))
    }
  }
  const stayed = promised.filter((key) => !touched.has(key))
  assert.deepEqual(
    seen.filter((key) => !touched.has(key)),
    stayed,
  )
}

/** A valid definition with overrides. */
export function sampleTool(changes: Partial<Tool> = {}): Tool {
  return {
    namespace: 'math',
    name: 'add',
    version: '1.0.0',
    description: 'Adds two numbers.',
    inputSchema: { type: 'object', properties: { a: { type: 'number' } } },
    backends: [{ kind: 'local' }],
    effect: 'read',
    ...changes,
  }
}

/** A few tools in two namespaces, one of them only as a pre-release. */
export function filled(catalog: Catalog): Catalog {
  const description = 'A thing.'
  catalog.register(sampleTool({ namespace: 'b', name: 'one', version: '1.0.0-beta', description }))
  catalog.register(sampleTool({ namespace: 'a', name: 'two', description, tags: ['Blue Sky', 'blue-sky'] }))
  catalog.register(sampleTool({ namespace: 'a', name: 'one', description }))
  catalog.register(sampleTool({ namespace: 'a', name: 'one', version: '2.0.0', description }))
  return catalog
}

/** Forged cursors. */
export function encoded(text: string): string {
  return Buffer.from(text).toString('base64url')
}

/** Fails unless the act throws a ToolError of this code, at this path when one is given. */
export function refuses(act: () => unknown, code: string, path?: string): ToolError {
  try {
    act()
  } catch (error) {
    return hasCode(error, code, path)
  }
  return assert.fail(`expected ${code}`)
}

/** Like `refuses`, for promises. */
export async function rejects(promise: Promise<unknown>, code: string, path?: string): Promise<void> {
  const error: unknown = await promise.then(
    () => undefined,
    (reason) => reason,
  )
  hasCode(error, code, path)
}

function hasCode(error: unknown, code: string, path?: string): ToolError {
  if (!ToolError.is(error)) return assert.fail(`expected ${code}, not ${String(error)}`)
  assert.equal(error.code, code)
  if (path !== undefined)
    assert.ok(
      error.details?.issues?.some((issue) => issue.path === path),
      error.message,
    )
  return error
}
