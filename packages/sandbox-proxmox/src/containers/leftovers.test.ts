import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createAddressRange } from './address-range.ts'
import { describe, isLeft, readListed, readOwnership } from './leftovers.ts'

const minute = 60_000
const now = Date.UTC(2026, 10, 19)

test('a description says who owns a container, also after Proxmox has added a line feed; any other text says nothing', () => {
  const made = { owner: '12-345-abcdef-4026531836-00ff', made: now }
  assert.deepEqual(readOwnership(`${describe(made)}\n`), made)
  for (const other of [undefined, 7, '', 'mine', `mine\n${describe(made)}`, describe({ ...made, owner: 'a b' })]) {
    assert.equal(readOwnership(other), undefined)
  }
})

test('a container is left when its owner has died here, or when it has ended, is old and its owner is unknown', () => {
  const cases = [
    ['dead', true, 0, true],
    ['dead', false, 0, true],
    ['alive', false, 60, false],
    ['alive', true, 60, false],
    ['unknown', true, 60, false],
    ['unknown', false, 5, false],
    ['unknown', false, 11, true],
  ] as const
  for (const [state, isRunning, age, expected] of cases) {
    const ownership = { owner: 'o', made: now - age * minute }
    assert.equal(
      isLeft({ isRunning }, ownership, () => state, now),
      expected,
      `${state}, ${isRunning ? 'running' : 'ended'}, ${age} minutes`,
    )
  }
})

test('rows of the list that have another form are left out', () => {
  const rows = [
    { vmid: '101', name: 'gantry-1', status: 'running', lock: 'create' },
    { vmid: 'x', name: 'y' },
    7,
    { vmid: 1 },
  ]
  assert.deepEqual(readListed(rows), [{ vmid: 101, name: 'gantry-1', isRunning: true, isLocked: true }])
  assert.deepEqual(readListed({}), [])
})

test('a number has one address and one hardware address', () => {
  const range = createAddressRange('10.77.0.250/23', { first: 9_100, last: 9_120 })
  assert.deepEqual(range.of(9_100), { address: '10.77.0.250', prefix: 23, hardware: '02:47:00:00:23:8C' })
  assert.equal(range.of(9_106).address, '10.77.1.0')
})
