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

test('nearestKeys suggests the right id for a misspelled name or namespace', () => {
  assert.deepEqual(near('github:creat_isue')[0], 'github:create_issue')
  assert.deepEqual(near('gihtub:create_issue')[0], 'github:create_issue')
  assert.deepEqual(near('GitHub:Create_Issue')[0], 'github:create_issue')
})

test('nearestKeys suggests the namespaces that hold a name given with a wrong namespace', () => {
  assert.deepEqual(near('messenger:send'), ['mail:send', 'slack:send'])
})

test('nearestKeys suggests nothing for a name unlike any other', () => {
  assert.deepEqual(near('weather:forecast'), [])
})
