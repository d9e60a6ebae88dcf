import assert from 'node:assert/strict'
import { test } from 'node:test'
import { testAudit } from '@gantry/conformance/internal/host-ports'
import type { AuditRecord } from './audit.ts'
import { memoryAudit } from './memory.ts'

testAudit('memory', async () => {
  const audit = memoryAudit()
  return { audit, read: async () => audit.records() }
})

test('the memory audit log keeps the newest records up to its capacity', () => {
  const audit = memoryAudit({ capacity: 3 })
  for (const callId of ['a', 'b', 'c', 'd', 'e']) audit.write({ callId } as AuditRecord)
  assert.deepEqual(
    audit.records().map(({ callId }) => callId),
    ['c', 'd', 'e'],
  )
})
