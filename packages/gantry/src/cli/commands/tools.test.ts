import assert from 'node:assert/strict'
import { test } from 'node:test'
import { docText } from './tools.ts'

test('the description of a tool begins with its id, version and title', () => {
  const doc = { id: 'my:hi', version: '1.2.0', title: 'Hi', summary: 'Says hi.', effect: 'read', omitted: [] } as const
  assert.equal(docText(doc), 'my:hi 1.2.0 – Hi\nSays hi.\n\neffect: read\n')
})
