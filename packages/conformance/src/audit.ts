import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Audit, AuditRecord } from '@gantry/core/internal/audits/audit'

/** The contract of Audit; `create` also says how to read back what was written. */
export function testAudit(
  name: string,
  create: () => Promise<{ audit: Audit; read: () => Promise<readonly AuditRecord[]> }>,
): void {
  test(`${name}: keeps records as written and in order`, async () => {
    const { audit, read } = await create()
    for (const callId of ['a', 'b', 'c']) await audit.write(startOf(callId))
    assert.deepEqual(await read(), ['a', 'b', 'c'].map(startOf))
  })

  test(`${name}: takes many records at once and loses none`, async () => {
    const { audit, read } = await create()
    const ids = Array.from({ length: 100 }, (_, index) => `call-${index}`)
    await Promise.all(ids.map((id) => audit.write(startOf(id))))
    assert.deepEqual((await read()).map(({ callId }) => callId).sort(), [...ids].sort())
  })
}

function startOf(callId: string): AuditRecord {
  return {
    phase: 'start',
    at: '2026-11-15T00:00:00.000Z',
    callId,
    tool: 'math:add:1.0.0',
    principal: 'alice',
    tenant: 'acme',
  }
}
