import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { ToolError } from '@gantry/contract'
import type { Catalog, CatalogChange, CatalogEntry } from '@gantry/core/internal/catalogs/catalog'
import { refuses, sampleTool, testLists, testSearch } from './catalog-pages.ts'

/** The contract of Catalog; `create` returns an empty one. */
export function testCatalog(name: string, create: () => Catalog): void {
  describe(`${name} as a catalog`, () => {
    testRegistration(create)
    testNames(create)
    testResolution(create)
    testLists(create)
    testSearch(create)
    testChanges(create)
  })
}

function testRegistration(create: () => Catalog): void {
  test('a registered tool is found by id with and without its version', () => {
    const catalog = create()
    const entry = catalog.register(sampleTool())
    assert.equal(entry.id, 'math:add:1.0.0')
    assert.equal(entry.key, 'math:add')
    assert.equal(catalog.find('math:add'), entry)
    assert.equal(catalog.find('math:add:1.0.0'), entry)
    assert.equal(catalog.size, 1)
  })

  test('the same definition again gives the existing entry', () => {
    const catalog = create()
    assert.equal(catalog.register(sampleTool()), catalog.register(sampleTool()))
    assert.equal(catalog.size, 1)
  })

  test('another definition under a taken version is refused and changes nothing', () => {
    const catalog = create()
    const entry = catalog.register(sampleTool())
    const before = catalog.hash
    refuses(() => catalog.register(sampleTool({ description: 'Other.' })), 'TOOL_INVALID', '/version')
    refuses(() => catalog.register(sampleTool({ timeoutMs: 5 })), 'TOOL_INVALID', '/version')
    refuses(() => catalog.register(sampleTool({ version: '1.0.0+build' })), 'TOOL_INVALID', '/version')
    assert.equal(catalog.find('math:add'), entry)
    assert.equal(catalog.hash, before)
  })

  test('update replaces a version and adds one that is new', () => {
    const catalog = create()
    catalog.register(sampleTool())
    catalog.update(sampleTool({ description: 'Other.' }))
    catalog.update(sampleTool({ version: '2.0.0' }))
    assert.equal(catalog.size, 2)
    assert.equal(catalog.find('math:add:1').tool.description, 'Other.')
    assert.equal(catalog.find('math:add').tool.version, '2.0.0')
  })

  test('an update that changes only how a tool runs keeps digest and hash', () => {
    const catalog = create()
    const entry = catalog.register(sampleTool())
    const before = catalog.hash
    const updated = catalog.update(sampleTool({ timeoutMs: 5 }))
    assert.equal(updated.digest, entry.digest)
    assert.equal(catalog.hash, before)
    assert.equal(catalog.find('math:add').tool.timeoutMs, 5)
  })

  test('unregister removes one version, or all when none is named', () => {
    const catalog = create()
    const empty = catalog.hash
    for (const version of ['1.0.0', '1.1.0', '2.0.0']) catalog.register(sampleTool({ version }))
    assert.equal(catalog.unregister('math:add:2.0.0'), true)
    assert.equal(catalog.find('math:add').tool.version, '1.1.0')
    assert.equal(catalog.unregister('math:add:^1'), false)
    assert.equal(catalog.unregister('math:add'), true)
    assert.equal(catalog.unregister('math:add'), false)
    assert.equal(catalog.size, 0)
    assert.equal(catalog.hash, empty)
  })

  test('later changes to the caller’s object change nothing in the catalog', () => {
    const catalog = create()
    const inputSchema = { type: 'object', properties: { a: { type: 'number' } } }
    const tags = ['one']
    const entry = catalog.register(sampleTool({ inputSchema, tags }))
    inputSchema.properties.a.type = 'string'
    tags.push('two')
    assert.deepEqual(entry.tool.inputSchema, { type: 'object', properties: { a: { type: 'number' } } })
    assert.deepEqual(entry.tool.tags, ['one'])
    assert.throws(() => Object.assign(entry.tool.inputSchema, { type: 'string' }), TypeError)
  })

  test('the hash is independent of the order of registration and of removed tools', () => {
    const definitions = ['a', 'b', 'c', 'd'].map((name) => sampleTool({ name }))
    const one = create()
    const other = create()
    for (const tool of definitions) one.register(tool)
    for (const tool of definitions.toReversed()) other.register(tool)
    other.register(sampleTool({ name: 'e' }))
    assert.notEqual(one.hash, other.hash)
    other.unregister('math:e')
    assert.equal(one.hash, other.hash)
  })
}

function testNames(create: () => Catalog): void {
  test('a name that differs from an existing one only in case is refused', () => {
    const catalog = create()
    catalog.register(sampleTool())
    refuses(() => catalog.register(sampleTool({ name: 'Add' })), 'TOOL_INVALID', '/name')
    refuses(() => catalog.register(sampleTool({ namespace: 'Math', name: 'sub' })), 'TOOL_INVALID', '/namespace')
    refuses(() => catalog.update(sampleTool({ name: 'ADD', version: '9.0.0' })), 'TOOL_INVALID', '/name')
    refuses(() => catalog.find('Math:Add'), 'TOOL_NOT_FOUND')
  })

  test('another source cannot take a tool over with a newer version or an update', () => {
    const catalog = create()
    catalog.register(sampleTool())
    refuses(() => catalog.register(sampleTool({ version: '9.0.0' }), { source: 'server' }), 'TOOL_INVALID', '/name')
    refuses(() => catalog.update(sampleTool({ description: 'Mine.' }), { source: 'server' }), 'TOOL_INVALID', '/name')
    assert.equal(catalog.find('math:add').tool.description, 'Adds two numbers.')
  })

  test('an alias finds its tool, with versions and ranges, as long as a version declares it', () => {
    const catalog = create()
    catalog.register(sampleTool({ aliases: ['sum:plus'] }))
    catalog.register(sampleTool({ version: '2.0.0' }))
    assert.equal(catalog.find('sum:plus').id, 'math:add:2.0.0')
    assert.equal(catalog.find('sum:plus:^1').id, 'math:add:1.0.0')
    catalog.unregister('math:add:1.0.0')
    refuses(() => catalog.find('sum:plus'), 'TOOL_NOT_FOUND')
  })

  test('for a caller the catalog behaves as if hidden tools did not exist', () => {
    const [all, some] = [create(), create()]
    for (const catalog of [all, some]) catalog.register(sampleTool())
    all.register(sampleTool({ version: '2.0.0', aliases: ['sum:plus'] }))
    all.register(sampleTool({ name: 'adds' }))
    const isThere = ({ id }: CatalogEntry): boolean => id === 'math:add:1.0.0'
    const onlooker = { finds: isThere, sees: isThere }
    assert.equal(all.find('math:add', onlooker).id, 'math:add:1.0.0')
    assert.equal(all.find('math:add').id, 'math:add:2.0.0')
    for (const id of ['math:adds', 'math:addd', 'math:add:2.0.0', 'math:add:^^', 'sum:plus', 'math:x']) {
      assert.deepEqual(
        thrownBy(() => all.find(id, onlooker)),
        thrownBy(() => some.find(id)),
        id,
      )
    }
  })

  test('an alias cannot take the name of a tool, nor a tool that of an alias', () => {
    const catalog = create()
    catalog.register(sampleTool({ aliases: ['sum:plus'] }))
    refuses(() => catalog.register(sampleTool({ namespace: 'sum', name: 'plus' })), 'TOOL_INVALID', '/name')
    refuses(() => catalog.register(sampleTool({ namespace: 'sum', name: 'Plus' })), 'TOOL_INVALID', '/name')
    refuses(() => catalog.register(sampleTool({ name: 'x', aliases: ['math:add'] })), 'TOOL_INVALID', '/aliases/0')
    refuses(() => catalog.register(sampleTool({ name: 'x', aliases: ['Math:ADD'] })), 'TOOL_INVALID', '/aliases/0')
    refuses(() => catalog.register(sampleTool({ name: 'x', aliases: ['sum:plus'] })), 'TOOL_INVALID', '/aliases/0')
    refuses(() => catalog.register(sampleTool({ name: 'x', aliases: ['math:x'] })), 'TOOL_INVALID', '/aliases/0')
    assert.equal(catalog.size, 1)
  })
}

function testResolution(create: () => Catalog): void {
  test('an id without a version means the newest stable one, deprecated or not', () => {
    const catalog = create()
    for (const version of ['1.9.0', '1.10.0', '2.0.0-rc.1']) catalog.register(sampleTool({ version }))
    assert.equal(catalog.find('math:add').tool.version, '1.10.0')
    catalog.update(sampleTool({ version: '1.10.0', deprecated: { message: 'Old.' } }))
    assert.equal(catalog.find('math:add').tool.version, '1.10.0')
    assert.equal(catalog.find('math:add:2.0.0-rc.1').tool.version, '2.0.0-rc.1')
    assert.equal(catalog.find('math:add:>=2.0.0-rc').tool.version, '2.0.0-rc.1')
    refuses(() => catalog.find('math:add:>=2'), 'TOOL_NOT_FOUND')
    assert.deepEqual(catalog.versions('math:add'), ['2.0.0-rc.1', '1.10.0', '1.9.0'])
  })

  test('a lookup after a change returns the changed entry', () => {
    const catalog = create()
    catalog.register(sampleTool())
    assert.equal(catalog.find('math:add:^1').tool.version, '1.0.0')
    catalog.register(sampleTool({ version: '1.1.0' }))
    assert.equal(catalog.find('math:add:^1').tool.version, '1.1.0')
    catalog.unregister('math:add')
    refuses(() => catalog.find('math:add:^1'), 'TOOL_NOT_FOUND')
  })

  test('an unknown tool is refused with near names, and an unknown version with the existing ones', () => {
    const catalog = create()
    catalog.register(sampleTool())
    catalog.register(sampleTool({ name: 'multiply' }))
    assert.deepEqual(refuses(() => catalog.find('math:ad'), 'TOOL_NOT_FOUND').details?.nearest, ['math:add'])
    const missing = refuses(() => catalog.find('math:add:^7'), 'TOOL_NOT_FOUND')
    assert.deepEqual(missing.details?.nearest, ['math:add:1.0.0'])
    assert.deepEqual(missing.details?.versions, ['1.0.0'])
  })

  test('a malformed id is distinguished from an unknown one', () => {
    refuses(() => create().find('math'), 'TOOL_ID_INVALID')
    refuses(() => create().find('math:add:latest'), 'TOOL_ID_INVALID')
    refuses(() => create().unregister('../etc:passwd'), 'TOOL_ID_INVALID')
  })
}

function testChanges(create: () => Catalog): void {
  test('a listener is called after each change, until it is removed', () => {
    const catalog = create()
    const received: CatalogChange[] = []
    const sizes: number[] = []
    const leave = catalog.subscribe((change) => {
      received.push(change)
      sizes.push(catalog.size)
    })
    catalog.register(sampleTool())
    catalog.register(sampleTool())
    catalog.update(sampleTool({ description: 'Other.' }))
    catalog.register(sampleTool({ version: '2.0.0' }))
    catalog.unregister('math:add')
    leave()
    catalog.register(sampleTool())
    assert.deepEqual(received, [
      { kind: 'registered', key: 'math:add', ids: ['math:add:1.0.0'] },
      { kind: 'updated', key: 'math:add', ids: ['math:add:1.0.0'] },
      { kind: 'registered', key: 'math:add', ids: ['math:add:2.0.0'] },
      { kind: 'unregistered', key: 'math:add', ids: ['math:add:2.0.0', 'math:add:1.0.0'] },
    ])
    assert.deepEqual(sizes, [1, 1, 2, 0])
  })

  test('a listener that throws or rejects breaks neither the catalog nor the others', () => {
    const catalog = create()
    let received = 0
    catalog.subscribe(() => {
      throw new Error('mine')
    })
    catalog.subscribe(async () => {
      throw new Error('late')
    })
    catalog.subscribe(() => {
      received += 1
    })
    assert.equal(catalog.register(sampleTool()).id, 'math:add:1.0.0')
    assert.equal(received, 1)
  })
}

function thrownBy(work: () => unknown): unknown {
  try {
    return work()
  } catch (error) {
    assert.ok(ToolError.is(error))
    return { code: error.code, message: error.message, details: error.details }
  }
}
