import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { isOpen, lose, lowestOpen, newPartition, take } from './reader.ts'

const message = { bytes: new Uint8Array(), headers: new Map(), source: 't', position: '' }

test('in any order of settling, every offset below the mark is settled and the mark itself is not', () => {
  const step = fc.record({ settle: fc.nat(), gap: fc.integer({ min: 1, max: 3 }), read: fc.boolean() })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
      const partition = newPartition('t', 0, 5n)
      const unsettled: bigint[] = []
      for (const { settle, gap, read } of steps) {
        if (read || unsettled.length === 0) {
          // Offsets have gaps, where there was something that is not a message.
          const offset = partition.next + BigInt(gap - 1)
          take(partition, offset, message)
          partition.next = offset + 1n
          unsettled.push(offset)
        } else {
          const [offset = assert.fail()] = unsettled.splice(settle % unsettled.length, 1)
          partition.open.delete(offset)
        }
        const lowest = unsettled.reduce((least, one) => (one < least ? one : least), partition.next)
        assert.equal(lowestOpen(partition), lowest)
      }
    }),
  )
})

test('no message of a lost partition is open', () => {
  const partition = newPartition('t', 0, 0n)
  const taken = take(partition, 0n, message)
  assert.equal(isOpen(taken), true)
  lose(partition)
  assert.equal(isOpen(taken), false)
})
