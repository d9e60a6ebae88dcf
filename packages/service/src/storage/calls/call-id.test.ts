import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createCallIds, timeOfCallId } from './call-id.ts'

test('ids are UUIDs of version 7 that sort by their time and do not repeat', () => {
  let now = 1_700_000_000_000
  const next = createCallIds(() => now)
  const ids = Array.from({ length: 2_000 }, () => {
    now += 1
    return next()
  })
  for (const id of ids) assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
  assert.deepEqual(ids.toSorted(), ids)
  assert.equal(new Set(ids).size, ids.length)
})

test('an id says when it was made, and one of somebody else says nothing', () => {
  const now = 1_700_000_000_123
  assert.equal(timeOfCallId(createCallIds(() => now)()), now)
  for (const other of ['', 'c-1', '018bcfe5-687b-4abc-8abc-0123456789ab']) assert.equal(timeOfCallId(other), undefined)
})
