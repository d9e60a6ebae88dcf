import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseToolId } from '../ids/tool-id.ts'
import { SortedStrings } from '../search/index.ts'
import { nearestKeys } from './names.ts'

const known = ['github:create_issue', 'github:list_issues', 'gitlab:create_issue', 'mail:send', 'slack:send']
const keys = new SortedStrings()
for (const key of known) keys.add(key)
const namespaces = ['github', 'gitlab', 'mail', 'slack'].map((namespace) => ({ namespace, tools: 1 }))

function near(id: string): readonly string[] {
  return nearestKeys(parseToolId(id), namespaces, keys, (key) => known.includes(key))
}

test('a misspelled name or namespace leads to the right one', () => {
  assert.deepEqual(near('github:creat_isue')[0], 'github:create_issue')
  assert.deepEqual(near('gihtub:create_issue')[0], 'github:create_issue')
  assert.deepEqual(near('GitHub:Create_Issue')[0], 'github:create_issue')
})

test('the right name in the wrong namespace leads to where it is', () => {
  assert.deepEqual(near('messenger:send'), ['mail:send', 'slack:send'])
})

test('a name like no other leads nowhere', () => {
  assert.deepEqual(near('weather:forecast'), [])
})
