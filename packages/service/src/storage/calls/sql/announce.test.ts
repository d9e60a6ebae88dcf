import assert from 'node:assert/strict'
import { test } from 'node:test'
import { stub } from '../../../stub.fixture.ts'
import type { Database } from '../../databases/database.ts'
import { createAnnouncer } from '../sql.ts'

/** Collects the payloads that the announcer notifies. */
function announcing() {
  const announced: string[] = []
  const query = async (_sql: string, [parts]: readonly unknown[] = []) => {
    announced.push(...(JSON.parse(String(parts)) as string[]))
    return []
  }
  return { announced, announce: createAnnouncer(stub<Database>({ query })) }
}

test('calls that end within 5 ms are announced in one notification', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const { announced, announce } = announcing()
  announce(['a'])
  announce([])
  announce(['b', 'c'])
  assert.deepEqual(announced, [])
  t.mock.timers.tick(5)
  assert.deepEqual(announced, ['a,b,c'])
  announce(['d'])
  t.mock.timers.tick(5)
  assert.deepEqual(announced, ['a,b,c', 'd'])
})

test('calls that are not urgent are announced within 250 ms, or with the next urgent ones', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const { announced, announce } = announcing()
  announce([], ['a'])
  t.mock.timers.tick(200)
  announce([], ['b'])
  assert.deepEqual(announced, [])
  t.mock.timers.tick(50)
  assert.deepEqual(announced, ['a,b'])
  announce([], ['c'])
  announce(['d'], ['e'])
  announce(['f'])
  t.mock.timers.tick(5)
  assert.deepEqual(announced, ['a,b', 'c,d,e,f'])
  t.mock.timers.tick(1_000)
  assert.equal(announced.length, 2)
})
