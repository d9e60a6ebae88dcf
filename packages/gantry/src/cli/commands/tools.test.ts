import assert from 'node:assert/strict'
import { test } from 'node:test'
import { docText } from './tools.ts'

test('a tool is headed by its id, its version and its title', () => {
  const doc = { id: 'my:hi', version: '1.2.0', title: 'Hi', summary: 'Says hi.', effect: 'read', omitted: [] } as const
  assert.equal(docText(doc), 'my:hi 1.2.0 – Hi\nSays hi.\n\neffect: read\n')
})
