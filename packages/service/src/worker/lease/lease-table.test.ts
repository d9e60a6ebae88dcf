import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { createLeaseTable, readLeases } from './leases.ts'

test('the table returns held leases with their fence, and no dropped ones', () => {
  const table = createLeaseTable()
  table.hold({ callId: 'a', fence: 1 })
  table.hold({ callId: 'b', fence: 7 })
  table.hold({ callId: 'c', fence: 2_147_483_647 })
  table.drop('b')
  table.drop('unknown')
  table.hold({ callId: 'a', fence: 2 })
  assert.deepEqual(Object.fromEntries(readLeases(table.memory)), { a: 2, c: 2_147_483_647 })
  assert.deepEqual([table.fenceOf('a'), table.fenceOf('b')], [2, undefined])
  assert.deepEqual([...table.callIds()].sort(), ['a', 'c'])
})

test('the table grows with its leases, and reuses free entries', () => {
  const table = createLeaseTable()
  const before = table.memory.byteLength
  const ids = Array.from({ length: 5_000 }, () => randomUUID())
  for (const callId of ids) table.hold({ callId, fence: 1 })
  assert.deepEqual([...readLeases(table.memory).keys()].sort(), ids.toSorted())
  const grown = table.memory.byteLength
  assert.ok(grown > before)
  for (let round = 0; round < 3; round++) {
    for (const callId of table.callIds()) table.drop(callId)
    assert.equal(readLeases(table.memory).size, 0)
    for (const callId of ids) table.hold({ callId, fence: 2 + round })
  }
  assert.equal(table.memory.byteLength, grown)
  assert.deepEqual([...readLeases(table.memory).keys()].sort(), ids.toSorted())
})
