import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sampleTool } from '../conformance/catalog-samples.ts'
import { memoryCatalog } from './memory.ts'
import { type Toolset, toolsetFilter } from './toolset.ts'

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
  [{ namespaces: [] }, ''],
  [{ tags: ['Safe'] }, 'github:read slack:read'],
  [{ namespaces: ['github'], tags: ['safe'] }, 'github:read'],
  [{ allow: ['slack:*'] }, 'slack:read'],
  [{ allow: ['github:write:1.0.0', 'slack:read'] }, 'github:write slack:read'],
  [{ deny: ['github:*'] }, 'slack:read'],
  [{ allow: ['*'], deny: ['github:read'] }, 'github:write slack:read'],
  [{ allow: ['github:read'], deny: ['*'] }, ''],
] as const satisfies readonly (readonly [Toolset, string])[]) {
  test(`the toolset ${JSON.stringify(toolset)} holds ${expected || 'nothing'}`, () => {
    assert.equal(keys(toolset), expected)
  })
}
