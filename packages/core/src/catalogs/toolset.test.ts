import assert from 'node:assert/strict'
import { test } from 'node:test'
import { refuses, rejects, sampleTool } from '@gantry/conformance/internal/catalog-pages'
import fc from 'fast-check'
import { rules } from '../policies/rules.ts'
import { type Toolset, toolsetFilter } from './filter.ts'
import { memoryCatalog } from './memory.ts'

const catalog = memoryCatalog()
catalog.register(sampleTool({ namespace: 'github', name: 'read', tags: ['safe'] }))
catalog.register(sampleTool({ namespace: 'github', name: 'write' }))
catalog.register(sampleTool({ namespace: 'slack', name: 'read', tags: ['safe', 'chat'] }))

function keys(toolset: Toolset): string {
  return catalog
    .list()
    .items.filter(toolsetFilter(toolset))
    .map(({ key }) => key)
    .join(' ')
}

for (const [toolset, expected] of [
  [{}, 'github:read github:write slack:read'],
  [{ namespaces: ['github'] }, 'github:read github:write'],
  [{ namespaces: ['GitHub'] }, 'github:read github:write'],
  [{ tags: ['Safe'] }, 'github:read slack:read'],
  [{ namespaces: ['github'], tags: ['safe'] }, 'github:read'],
  [{ allow: ['slack:*'] }, 'slack:read'],
  [{ allow: ['github:write:1.0.0', 'slack:read'] }, 'github:write slack:read'],
  [{ allow: ['GITHUB:w*'] }, 'github:write'],
  [{ deny: ['github:*'] }, 'slack:read'],
  [{ deny: ['GitHub:WRITE'] }, 'github:read slack:read'],
  [
    { allow: undefined, deny: undefined, tags: undefined, namespaces: undefined },
    'github:read github:write slack:read',
  ],
  [{ allow: ['*'], deny: ['github:read'] }, 'github:write slack:read'],
  [{ allow: ['github:read'], deny: ['*'] }, ''],
] as const satisfies readonly (readonly [Toolset, string])[]) {
  test(`the toolset ${JSON.stringify(toolset)} holds ${expected || 'nothing'}`, () => {
    assert.equal(keys(toolset), expected)
  })
}

for (const [toolset, path, hint] of [
  [5, '/toolset', /must be an object/],
  [null, '/toolset', /must be an object/],
  [['github:*'], '/toolset', /must be an object/],
  [{ denny: ['github:*'] }, '/toolset/denny', /did you mean "deny"/],
  [{ allow: 'github:*' }, '/toolset/allow', /must be a list/],
  [{ allow: [] }, '/toolset/allow', /namespace:prefix\*/],
  [{ deny: ['github:read', 'github'] }, '/toolset/deny/1', /namespace:prefix\*/],
  [{ deny: ['*:read'] }, '/toolset/deny/0', /namespace:prefix\*/],
  [{ deny: ['github:read:^1'] }, '/toolset/deny/0', /namespace:prefix\*/],
  [{ allow: [7] }, '/toolset/allow/0', /namespace:prefix\*/],
  [{ tags: 'safe' }, '/toolset/tags', /must be a list/],
  [{ tags: [] }, '/toolset/tags', /leave it out/],
  [{ tags: [''] }, '/toolset/tags/0', /must not be empty/],
  [{ namespaces: [] }, '/toolset/namespaces', /leave it out/],
  [{ namespaces: ['github:*'] }, '/toolset/namespaces/0', /is not a namespace/],
] as const) {
  test(`the toolset ${JSON.stringify(toolset)} is refused at ${path}`, async () => {
    const given = { toolset: toolset as unknown as Toolset }
    assert.match(refuses(() => catalog.list(given), 'INPUT_INVALID', path).message, hint)
    for (const query of ['', 'read']) await rejects(catalog.search(query, given), 'INPUT_INVALID', path)
  })
}

test('the error for thousands of invalid patterns has bounded size', () => {
  const error = refuses(() => catalog.list({ toolset: { deny: new Array(9_000).fill('x') } }), 'INPUT_INVALID')
  assert.ok(JSON.stringify(error.details).length < 50_000 && error.message.length < 1_000)
})

test('a toolset and a rule with the same patterns match the same tools', async () => {
  const word = fc.constantFrom('git', 'github', 'GitHub', 'read', 'READ', 'write', 'w', 'slack')
  const pattern = fc.oneof(
    fc.constant('*'),
    fc.tuple(word, word, fc.constantFrom('', '*', ':1.0.0', ':2.0.0')).map(([ns, name, end]) => `${ns}:${name}${end}`),
    word.map((namespace) => `${namespace}:*`),
  )
  const identity = { principal: 'ada', tenant: 'lab', permissions: [] }
  fc.assert(
    fc.property(fc.array(pattern, { minLength: 1, maxLength: 4 }), fc.constantFrom('allow', 'deny'), (list, verb) => {
      const shown = catalog.list({ toolset: { [verb]: list } }).items
      const policy = rules([verb === 'allow' ? { allow: list } : { deny: list }], {
        default: verb === 'allow' ? 'deny' : 'allow',
      })
      const permitted = catalog.list().items.filter(({ id, tool }) => policy.visible?.({ identity, id, tool }))
      assert.deepEqual(shown, permitted)
    }),
  )
})
