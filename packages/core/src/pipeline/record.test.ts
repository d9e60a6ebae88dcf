import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { test } from 'node:test'
import { createExecutor } from '@gantry/tools'
import { builtinTools } from '@gantry/tools/internal/builtin'
import { memoryArtifacts } from '../artifacts/memory.ts'
import { memoryAudit } from '../audits/memory.ts'
import { defineTool } from '../tools/tool.ts'
import { alice, anything, runIt, tool } from './pipeline.fixture.ts'

test('the audit log has an end entry for every call, and a start entry before every tool starts', async () => {
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

test('the audit log holds the arguments of privileged calls without secrets', async () => {
  const audit = memoryAudit()
  await runIt(
    tool(() => 1, { permissions: ['x'] }),
    { user: 'a', login: { apiKey: 'k', otp: '1' }, from: ['postgres://u:pw@h/d'] },
    { audit },
  )
  const [start] = audit.records()
  const shown = JSON.stringify(start?.phase === 'start' && start.args)
  const plain = shown.replaceAll(/\[redacted (\d+) bytes hmac-sha256:[0-9a-f]{32}\]/g, '<$1>')
  assert.deepEqual(JSON.parse(plain), {
    user: 'a',
    login: { apiKey: '<1>', otp: '<1>' },
    from: ['postgres://u:<2>@h/d'],
  })
})

test('the audit log holds the arguments and the runtime of every call that runs a program', async () => {
  const files = { 'auth.py': 'print(1)', 'see.txt': 'see://a:payload@' }
  const calls = [
    ['shell:run', { argv: ['true', 'see://a:payload@'], files }, 'sandboxed', 'namespaces'],
    ['shell:run', { script: 'echo see://a:payload@', profile: 'open', runtime: 'unsafe_host' }, 'sandboxed', 'none'],
    [
      'code:run',
      { language: 'javascript', code: 'return "see://a:payload@"', files, profile: 'wasm' },
      'sandboxed',
      'wasm',
    ],
    ['code:session', { action: 'open', language: 'javascript', profile: 'wasm' }, 'session', 'wasm'],
    ['code:program', { code: 'return "see://a:payload@"' }, 'program', 'wasm'],
    ['test:sandboxed', { text: 'see://a:payload@' }, 'sandboxed', 'namespaces'],
  ] as const
  const audit = memoryAudit()
  const sandboxed = defineTool({
    ...{ namespace: 'test', name: 'sandboxed', description: 'It.', inputSchema: anything },
    backends: [{ kind: 'sandboxed', script: 'cat' }],
  })
  const gantry = createExecutor({
    ...{ audit, tools: [...builtinTools(), sandboxed] },
    runtimes: { profiles: { open: { floor: 'none', unsafeHost: true } } },
  })
  for (const [id, args, backend, isolation] of calls) {
    const before = audit.records().length
    const { status, error } = await gantry.run(id, args)
    assert.equal(status, 'ok', `${id} ${error?.message}`)
    const [start, end] = audit.records().slice(before)
    assert.ok(start?.phase === 'start' && end?.phase === 'end')
    assert.deepEqual(start.args, args, 'exactly as they run')
    assert.match(start.digest ?? '', /^[0-9a-f]{64}$/)
    assert.equal(start.confinement?.backend, backend)
    assert.equal(end.runtime?.isolation, isolation, id)
  }
  await gantry.close()
})

test('the audit log holds the runtime of a program that was stopped', async () => {
  const audit = memoryAudit()
  const gantry = createExecutor({ audit, tools: builtinTools() })
  const args = { language: 'javascript', code: 'for (;;) {}', profile: 'wasm' }
  // The first program probes the runtimes, which takes time.
  assert.equal((await gantry.run('code:run', { ...args, code: 'return 1' })).status, 'ok')
  const result = await gantry.run('code:run', args, { timeoutMs: 300 })
  const end = audit.records().at(-1)
  assert.equal(result.status, 'timeout')
  assert.deepEqual(end?.phase === 'end' && end.runtime, { kind: 'wasm', isolation: 'wasm' })
  await gantry.close()
})

test('the audit log holds large arguments as an artifact of the call with length and digest', async () => {
  const audit = memoryAudit()
  const artifacts = memoryArtifacts()
  const gantry = createExecutor({ audit, artifacts, tools: builtinTools() })
  const args = { language: 'javascript', code: `return ${JSON.stringify('x'.repeat(100_000))}.length`, profile: 'wasm' }
  assert.equal((await gantry.run('code:run', args)).status, 'ok')
  const [start] = audit.records()
  assert.ok(start?.phase === 'start' && start.argsFile !== undefined)
  assert.equal(start.args, undefined)
  const { artifact, bytes, sha256 } = start.argsFile
  const identity = { principal: 'local', tenant: 'local', permissions: ['*'] }
  const { content } = await artifacts.read(artifact, identity, { start: 0, end: bytes }, AbortSignal.timeout(5_000))
  assert.equal(hash('sha256', content), sha256)
  assert.deepEqual(JSON.parse(Buffer.from(content).toString()), args)
  await gantry.close()
})

test('a call is refused when its start cannot be audited', async () => {
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

test('an outcome that cannot be audited becomes a warning, because the tool has run', async () => {
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

test('an audit log that never answers delays an outcome for a limited time, and a call times out while it waits for its start entry', async () => {
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
