import assert from 'node:assert/strict'
import { test } from 'node:test'
import { memoryAudit } from '../audits/memory.ts'
import { createExecutor } from '../executor.ts'
import { alice, runIt, tool } from './pipeline.fixture.ts'

test('every call leaves its outcome on record, and every started tool its intent before', async () => {
  const audit = memoryAudit()
  const gantry = createExecutor({
    tools: [
      tool(() => {
        assert.equal(audit.records().length, 1)
        return 1
      }),
    ],
    audit,
  })
  await gantry.run('test:it', {}, { identity: alice })
  await gantry.run('test:nothing')
  const [start, end, missing] = audit.records()
  assert.deepEqual([start?.phase, end?.phase, missing?.phase], ['start', 'end', 'end'])
  assert.equal(start?.principal, 'alice')
  assert.equal(missing?.phase === 'end' && missing.code, 'TOOL_NOT_FOUND')
})

test('arguments of privileged calls are recorded without secrets', async () => {
  const audit = memoryAudit()
  await runIt(
    tool(() => 1, { permissions: ['x'] }),
    { user: 'a', login: { apiKey: 'k', otp: '1' }, from: ['postgres://u:pw@h/d'] },
    { audit },
  )
  const [start] = audit.records()
  const args = { user: 'a', login: { apiKey: '[redacted]', otp: '[redacted]' }, from: ['postgres://u:[redacted]@h/d'] }
  assert.deepEqual(start?.phase === 'start' && start.args, args)
})

test('nothing runs off the record: an audit that fails refuses the call', async () => {
  let calls = 0
  for (const write of [
    () => {
      throw new Error('down')
    },
    async () => {
      throw new Error('down')
    },
  ]) {
    const result = await runIt(
      tool(() => ++calls),
      {},
      { audit: { write } },
    )
    assert.equal(result.error?.code, 'AUDIT_UNAVAILABLE')
    assert.equal(result.error?.effect, 'none')
  }
  assert.equal(calls, 0)
})

test('an outcome that cannot be recorded is a warning, because the tool has run', async () => {
  for (const fail of [
    () => {
      throw new Error('down')
    },
    async () => {
      throw new Error('down')
    },
  ]) {
    const result = await runIt(
      tool(() => 1),
      {},
      { audit: { write: ({ phase }) => (phase === 'end' ? fail() : undefined) } },
    )
    assert.equal(result.status, 'ok')
    assert.equal(result.warnings.at(-1)?.code, 'AUDIT_UNAVAILABLE')
  }
})

test('an audit that never answers holds up an outcome only for a while, and a call that waits for it ends in time', async () => {
  const never = () => new Promise<void>(() => undefined)
  const late = await runIt(
    tool(() => 1),
    {},
    { audit: { write: ({ phase }) => (phase === 'end' ? never() : undefined) }, limits: { auditMs: 5 } },
  )
  assert.equal(late.status, 'ok')
  assert.equal(late.warnings.at(-1)?.code, 'AUDIT_UNAVAILABLE')
  const stuck = await runIt(
    tool(() => 1),
    {},
    { audit: { write: ({ phase }) => (phase === 'start' ? never() : undefined) }, limits: { timeoutMs: 5 } },
  )
  assert.equal(stuck.status, 'timeout')
  assert.equal(stuck.error?.effect, 'none')
})
