import assert from 'node:assert/strict'
import { test } from 'node:test'
import { testAudit } from '@gantry/conformance/internal/audit'
import type { AuditRecord } from './audit.ts'
import { memoryAudit } from './memory.ts'

testAudit('memory', async () => {
  const audit = memoryAudit()
  return { audit, read: async () => audit.records() }
})

test('the newest records are kept when there are more than fit', () => {
  const audit = memoryAudit({ capacity: 3 })
  for (const callId of ['a', 'b', 'c', 'd', 'e']) audit.write({ callId } as AuditRecord)
  assert.deepEqual(
    audit.records().map(({ callId }) => callId),
    ['c', 'd', 'e'],
  )
})
