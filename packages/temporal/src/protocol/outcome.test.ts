import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type SandboxLimits, ToolError } from '@gantry/contract'
import type { Outcome } from '@gantry/core/internal/runtimes/runtime'
import { decodeEnd, encodeEnd, readOutputReport } from './outcome.ts'

const limits: SandboxLimits = {
  wallMs: 1_000,
  cpuMs: 1_000,
  memoryBytes: 1_000_000,
  pids: 10,
  diskBytes: 1_000_000,
  stdoutBytes: 16,
  stderrBytes: 16,
}
const collect = { files: 2, bytes: 16 }
const captured = (text: string) => ({ bytes: Buffer.from(text), total: text.length, truncated: false })
const outcomeWith = (more: Partial<Outcome> = {}): Outcome => ({
  exit: { code: 0 },
  stdout: captured('out'),
  stderr: captured('err'),
  value: { a: 1 },
  files: new Map([['a/b', Buffer.from('file')]]),
  skipped: [],
  usage: { wallMs: 5 },
  enforced: {},
  ...more,
})
const encoded = (more?: Partial<Outcome>): Uint8Array =>
  encodeEnd({
    kind: 'outcome',
    within: { kind: 'process', isolation: 'namespaces' },
    outcome: outcomeWith(more),
    messages: [{ kind: 'log', message: 'note' }],
  })

test('an outcome is read as it was written', () => {
  const end = decodeEnd(encoded(), limits, collect)
  assert.ok(end?.kind === 'outcome')
  const { stdout, files, value } = end.outcome
  assert.deepEqual([Buffer.from(stdout.bytes).toString(), value], ['out', { a: 1 }])
  assert.equal(Buffer.from(files.get('a/b') ?? []).toString(), 'file')
  assert.deepEqual(
    [end.within, end.messages],
    [{ kind: 'process', isolation: 'namespaces' }, [{ kind: 'log', message: 'note' }]],
  )
})

test('an error is read with its code', () => {
  const end = decodeEnd(
    encodeEnd({ kind: 'error', error: new ToolError('LIMIT_EXCEEDED', 'Too much.') }),
    limits,
    collect,
  )
  assert.equal(end?.kind === 'error' && end.error.code, 'LIMIT_EXCEEDED')
})

test('an outcome beyond the limits of its job, or cut off, is refused', () => {
  const refused: { readonly [what: string]: Uint8Array } = {
    stdout: encoded({ stdout: captured('x'.repeat(17)) }),
    'bytes of files': encoded({ files: new Map([['a', Buffer.alloc(17)]]) }),
    'number of files': encoded({ files: new Map(['a', 'b', 'c'].map((name) => [name, Buffer.alloc(1)])) }),
    'a path out of the workspace': encoded({ files: new Map([['../a', Buffer.alloc(1)]]) }),
    'bytes after its end': Buffer.concat([encoded(), Buffer.of(0)]),
    'a cut': encoded().subarray(0, -1),
    nothing: new Uint8Array(),
    noise: Buffer.from('ffffffff', 'hex'),
  }
  for (const [what, bytes] of Object.entries(refused)) assert.equal(decodeEnd(bytes, limits, collect), undefined, what)
  assert.equal(decodeEnd(encoded(), limits, undefined), undefined, 'files that were not asked for')
})

test('a report of output has pieces of known streams only', () => {
  assert.deepEqual(readOutputReport({ skipped: 0, pieces: [{ stream: 'stdout', base64: 'YQ==' }] })?.pieces.length, 1)
  assert.equal(readOutputReport({ skipped: 0, pieces: [{ stream: 'other', base64: 'YQ==' }] }), undefined)
  assert.equal(readOutputReport(null), undefined)
})
