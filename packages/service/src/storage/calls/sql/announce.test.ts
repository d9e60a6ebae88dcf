import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Database } from '../../databases/database.ts'
import { createAnnouncer } from '../sql.ts'

/** What is announced, statement by statement. */
function announcing() {
  const told: string[] = []
  const query = async (_sql: string, [parts]: readonly unknown[] = []) => {
    told.push(...(JSON.parse(String(parts)) as string[]))
    return []
  }
  return { told, announce: createAnnouncer({ query } as unknown as Database) }
}

test('what ended together is announced together, a moment later', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const { told, announce } = announcing()
  announce(['a'])
  announce([])
  announce(['b', 'c'])
  assert.deepEqual(told, [])
  t.mock.timers.tick(5)
  assert.deepEqual(told, ['a,b,c'])
  announce(['d'])
  t.mock.timers.tick(5)
  assert.deepEqual(told, ['a,b,c', 'd'])
})

test('what only lookers-on can know of is announced later, or with what is in a hurry', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const { told, announce } = announcing()
  announce([], ['a'])
  t.mock.timers.tick(200)
  announce([], ['b'])
  assert.deepEqual(told, [])
  t.mock.timers.tick(50)
  assert.deepEqual(told, ['a,b'])
  announce([], ['c'])
  announce(['d'], ['e'])
  announce(['f'])
  t.mock.timers.tick(5)
  assert.deepEqual(told, ['a,b', 'c,d,e,f'])
  t.mock.timers.tick(1_000)
  assert.equal(told.length, 2)
})
