import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type ArtifactRef, type Json, ToolError } from '@gantry/contract'
import { resultSchema } from '@gantry/contract/schemas'
import { compileSchema } from '@gantry/json-schema'
import type { AttachedFile, ToolContext } from '../backends/backend.ts'
import type { EffectSink, WrittenFile } from '../backends/program-journal.ts'
import { createExecutor } from '../executor.ts'
import type { RunOptions } from '../executor-interface.ts'
import type { ExecutorOptions } from '../executor-options.ts'
import { defineTool } from '../tools/tool.ts'
import { alice, anything, never, tool } from './pipeline.fixture.ts'

/** Runs `test:it` with a host that takes its effects. */
async function written(
  run: (args: object, context: ToolContext) => unknown,
  effectSink: EffectSink | undefined,
  { options = {}, given = {} }: { options?: ExecutorOptions; given?: RunOptions } = {},
) {
  const gantry = createExecutor({ tools: [tool(run)], ...options })
  const result = await gantry.run('test:it', {}, { effectSink, ...given })
  await gantry.close()
  assert.deepEqual(compileSchema(resultSchema).issues(JSON.parse(JSON.stringify(result))), [])
  return result
}

/** A host that stores files in memory. */
function files() {
  const kept: WrittenFile[] = []
  const keep = async (file: WrittenFile): Promise<ArtifactRef> => {
    kept.push(file)
    const { name, mimeType, content } = file
    return { id: `art_${kept.length}`, name, mimeType, bytes: content.byteLength, digest: 'd' }
  }
  return { kept, keep }
}

const text = (content: Uint8Array | undefined): string => Buffer.from(content ?? []).toString()

test('context.send passes a numbered message to the host at once, and the call ends after the host accepted it', async () => {
  const left: unknown[] = []
  const safe = Promise.withResolvers<void>()
  const send = (message: Json, number: number): Promise<void> => {
    left.push([message, number])
    return safe.promise
  }
  let seen: unknown[] = []
  let ended = false
  const call = written(
    (_args, context) => {
      context.send({ n: 1 })
      context.send('two')
      seen = [...left]
      return 'done'
    },
    { send },
  ).finally(() => {
    ended = true
  })
  for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate)
  assert.deepEqual(seen, [
    [{ n: 1 }, 1],
    ['two', 2],
  ])
  assert.equal(ended, false)
  safe.resolve()
  const result = await call
  assert.equal(result.output, 'done')
  assert.deepEqual(result.warnings, [])
  assert.deepEqual(result.effects, [
    { kind: 'message', message: { n: 1 } },
    { kind: 'message', message: 'two' },
  ])
})

test('a message that cannot be sent becomes a warning, not an effect, and does not fail the call', async () => {
  const faults: readonly NonNullable<EffectSink['send']>[] = [
    async (_message, number) => {
      if (number !== 2) throw new ToolError('STORE_UNAVAILABLE', 'Unavailable.')
    },
    (_message, number) => {
      if (number !== 2) throw new ToolError('STORE_UNAVAILABLE', 'Unavailable.')
    },
  ]
  for (const send of faults) {
    const { status, effects, warnings } = await written(
      (_args, context) => {
        for (const n of [1, 2, 3]) context.send(n)
      },
      { send },
    )
    assert.deepEqual([status, effects], ['ok', [{ kind: 'message', message: 2 }]])
    assert.deepEqual(warnings, [{ code: 'STORE_UNAVAILABLE', message: 'Of 3 messages, 2 could not be sent.' }])
  }
})

test('a finished tool keeps its outcome when its messages are still in flight at the timeout', async () => {
  const signals: AbortSignal[] = []
  const send = (_message: Json, _number: number, signal: AbortSignal): Promise<void> => {
    signals.push(signal)
    return never()
  }
  const doubt = {
    code: 'OUTCOME_UNKNOWN',
    message: 'Of 1 messages, 1 may or may not have been sent: the call ended first.',
  }
  const given = { timeoutMs: 5 }
  const sending = (then: () => unknown) => {
    const run = (_args: object, context: ToolContext): unknown => {
      context.send(1)
      return then()
    }
    return written(run, { send }, { given })
  }
  const done = await sending(() => 'done')
  assert.deepEqual([done.status, done.output, done.effects, done.warnings], ['ok', 'done', [], [doubt]])
  const failed = await sending(() => {
    throw new Error('no luck')
  })
  assert.deepEqual([failed.status, failed.error?.message, failed.warnings], ['failed', 'no luck', [doubt]])
  const late = await sending(never)
  assert.deepEqual([late.status, late.effects, late.warnings], ['timeout', [], [doubt]])
  assert.deepEqual(
    signals.map(({ aborted }) => aborted),
    [true, true, true],
  )
})

test('messages of a failed attempt stay sent, and the next attempt continues their numbers', async () => {
  const left: unknown[] = []
  const send = (message: Json, number: number): void => void left.push([message, number])
  const run = (_args: object, context: ToolContext): string => {
    context.send(`try ${context.attempt}`)
    if (context.attempt < 3) throw new ToolError('BACKEND_FAILED', 'Again.', { retryable: true })
    return 'done'
  }
  const gantry = createExecutor({ tools: [tool(run, { effect: 'repeatable', retry: { attempts: 3, delayMs: 0 } })] })
  const result = await gantry.run('test:it', {}, { effectSink: { send } })
  await gantry.close()
  assert.deepEqual(left, [
    ['try 1', 1],
    ['try 2', 2],
    ['try 3', 3],
  ])
  assert.equal(result.effects.length, 3)
})

test('a refused message takes no number and does not delay other messages', async () => {
  const left: unknown[] = []
  const run = (_args: object, { send }: ToolContext): void => {
    send('one')
    assert.throws(() => send(5n as never), { code: 'OUTPUT_INVALID' })
    assert.throws(() => send('x'.repeat(900)), { code: 'LIMIT_EXCEEDED' })
    send('two')
  }
  const gantry = createExecutor({ tools: [tool(run, { limits: { resultBytes: 800 } })] })
  const send = (message: Json, number: number): void => void left.push([message, number])
  const { status, effects } = await gantry.run('test:it', {}, { effectSink: { send } })
  await gantry.close()
  assert.deepEqual([status, effects.length], ['ok', 2])
  assert.deepEqual(left, [
    ['one', 1],
    ['two', 2],
  ])
})

test('secrets are redacted in messages and files, binary files included', async () => {
  const left: Json[] = []
  const { kept, keep } = files()
  const run = async (_args: object, { secrets, send, attach }: ToolContext): Promise<void> => {
    send({ token: `is ${secrets.key}` })
    await attach({ name: `a ${secrets.key}.txt`, content: `is ${secrets.key}, ü` })
    await attach({ name: 'b', content: Buffer.concat([Buffer.from([0xff, 0xfe]), Buffer.from(`is ${secrets.key}`)]) })
  }
  const send = (message: Json): void => void left.push(message)
  const gantry = createExecutor({ tools: [tool(run, { secrets: ['key'] })], secrets: { key: 'hunter2-hunter2' } })
  const result = await gantry.run('test:it', {}, { effectSink: { send, keep } })
  await gantry.close()
  assert.equal(result.status, 'ok')
  assert.deepEqual(left, [{ token: 'is [redacted]' }])
  assert.equal(kept[0]?.name, 'a [redacted].txt')
  assert.equal(text(kept[0]?.content), 'is [redacted], ü')
  assert.deepEqual([...(kept[1]?.content.subarray(0, 2) ?? [])], [0xff, 0xfe])
  assert.equal(text(kept[1]?.content.subarray(2)), 'is [redacted]')
})

test('a non-ASCII secret is redacted in binary files in UTF-8, NFD and UTF-16 of both byte orders', async () => {
  const { kept, keep } = files()
  const key = 'pässwort-密码'
  const wide = Buffer.from(key, 'utf16le')
  const written = [Buffer.from(key), Buffer.from(key.normalize('NFD')), wide, Buffer.from(wide).swap16()]
  const run = async (_args: object, { attach }: ToolContext): Promise<void> => {
    for (const bytes of written) await attach({ name: 'b', content: Buffer.concat([Buffer.from([0xff]), bytes]) })
  }
  const gantry = createExecutor({ tools: [tool(run, { secrets: ['key'] })], secrets: { key } })
  const result = await gantry.run('test:it', {}, { effectSink: { keep } })
  await gantry.close()
  assert.equal(result.status, 'ok')
  assert.deepEqual(
    kept.map(({ content }) => [content[0], text(content.subarray(1))]),
    written.map(() => [0xff, '[redacted]']),
  )
})

test('a file is stored with its content at the time of attach, as an effect and an artifact', async () => {
  const { kept, keep } = files()
  const content = new Uint8Array([1, 2, 3])
  const result = await written(
    async (_args, { attach }) => {
      const attached = attach({ name: 'data.bin', content })
      content.fill(9)
      const { id } = await attached
      await attach({ name: 'page.html', content: '<p>', mimeType: 'Text/HTML; charset=utf-8' })
      return id
    },
    { keep },
  )
  assert.equal(result.output, 'art_1')
  assert.deepEqual([...(kept[0]?.content ?? [])], [1, 2, 3])
  const data = { id: 'art_1', name: 'data.bin', mimeType: 'application/octet-stream', bytes: 3, digest: 'd' }
  const page = { id: 'art_2', name: 'page.html', mimeType: 'text/html', bytes: 3, digest: 'd' }
  assert.deepEqual(result.artifacts, [data, page])
  assert.deepEqual(result.effects, [
    { kind: 'file', artifact: data },
    { kind: 'file', artifact: page },
  ])
})

test('the name of an attached file is reduced to a safe base name', async () => {
  const names = [
    ['../../etc/passwd', 'passwd'],
    ['C:\\Windows\\win.ini', 'win.ini'],
    ['a\u0000b\u202egnp.exe\r\n', 'abgnp.exe'],
    ['..', 'file'],
    ['dir/', 'file'],
    [`${'x'.repeat(500)}.txt`, `${'x'.repeat(196)}.txt`],
  ] as const
  const { kept, keep } = files()
  await written(
    async (_args, { attach }) => {
      for (const [name] of names) await attach({ name, content: '' })
    },
    { keep },
  )
  assert.deepEqual(
    kept.map(({ name }) => name),
    names.map(([, name]) => name),
  )
  assert.equal(kept[0]?.mimeType, 'text/plain')
})

test('the call waits for files that the tool did not await, and a file that fails becomes a warning', async () => {
  const { keep } = files()
  const forgotten = await written((_args, { attach }) => void attach({ name: 'a', content: 'b' }), {
    keep: async (file) => {
      await new Promise(setImmediate)
      return keep(file)
    },
  })
  assert.equal(forgotten.effects.length, 1)
  const refusing: EffectSink = { keep: () => Promise.reject(new ToolError('STORE_UNAVAILABLE', 'Full.')) }
  const ignored = await written((_args, { attach }) => void attach({ name: 'a', content: 'b' }), refusing)
  assert.deepEqual([ignored.status, ignored.effects, ignored.artifacts], ['ok', [], []])
  assert.deepEqual(ignored.warnings, [{ code: 'STORE_UNAVAILABLE', message: 'Of 1 files, 1 could not be stored.' }])
})

test('a call whose file was not stored may have had effects, so it is not retried', async () => {
  let runs = 0
  const run = async (_args: object, { attach }: ToolContext): Promise<void> => {
    runs += 1
    await attach({ name: 'a', content: 'b' })
  }
  const gantry = createExecutor({ tools: [tool(run, { effect: 'once', retry: { attempts: 3, delayMs: 0 } })] })
  const keep = (): Promise<never> => Promise.reject(new ToolError('STORE_UNAVAILABLE', 'Unavailable.'))
  const refused = await gantry.run('test:it', {}, { effectSink: { keep } })
  const { error } = refused
  assert.deepEqual(
    [error?.code, error?.effect, error?.cause?.message],
    ['STORE_UNAVAILABLE', 'possible', 'Unavailable.'],
  )
  assert.equal(runs, 1)
  const hostless = await gantry.run('test:it')
  assert.match(hostless.error?.message ?? '', /host of this call does not store files/)
  await gantry.close()
})

const tooMuch: readonly (readonly [string, (context: ToolContext) => unknown, string])[] = [
  [
    'too many files',
    async ({ attach }) => {
      for (let n = 0; n < 101; n++) await attach({ name: 'a', content: '' })
    },
    'LIMIT_EXCEEDED',
  ],
  [
    'too many bytes',
    async ({ attach }) => {
      const content = new Uint8Array(40_000_000)
      await attach({ name: 'a', content })
      await attach({ name: 'b', content })
    },
    'LIMIT_EXCEEDED',
  ],
  ['a file without a name', ({ attach }) => attach({ content: '' } as AttachedFile), 'OUTPUT_INVALID'],
  ['no file at all', ({ attach }) => attach(null as never), 'OUTPUT_INVALID'],
  [
    'content that is neither text nor bytes',
    ({ attach }) => attach({ name: 'a', content: 5 as never }),
    'OUTPUT_INVALID',
  ],
  ['a malformed tool id', ({ inject }) => inject('no id'), 'OUTPUT_INVALID'],
  ['an unknown tool', ({ inject }) => inject('test:other'), 'OUTPUT_INVALID'],
  ['a hidden tool', ({ inject }) => inject('test:hidden'), 'OUTPUT_INVALID'],
  ['a tool id that is not a string', ({ inject }) => inject({ toString: () => 'test:it' } as never), 'OUTPUT_INVALID'],
]

const hidden = defineTool({
  namespace: 'test',
  name: 'hidden',
  description: 'Hidden.',
  inputSchema: anything,
  permissions: ['root'],
  run: () => 1,
})

for (const [name, run, code] of tooMuch) {
  test(`the context refuses ${name}`, async () => {
    const tools = [tool((_args, context) => run(context)), hidden]
    const { error } = await written(run as never, files(), { options: { tools }, given: { identity: alice } })
    assert.deepEqual([error?.code, error?.effect], [code, 'possible'])
  })
}

test('injected tools are listed once each as effects, up to a limit', async () => {
  const others = Array.from({ length: 101 }, (_, n) =>
    defineTool({ namespace: 'other', name: `t${n}`, description: 'Other.', inputSchema: anything, run: () => n }),
  )
  const offering = tool((_args: object, { inject }: ToolContext) => {
    for (const id of ['other:t1', 'other:t1', 'other:t2:1.0.0']) inject(id)
  })
  const offered = await written(() => 1, undefined, { options: { tools: [offering, ...others] } })
  assert.deepEqual(offered.effects, [
    { kind: 'tool', tool: 'other:t1' },
    { kind: 'tool', tool: 'other:t2:1.0.0' },
  ])
  const flooding = tool((_args: object, { inject }: ToolContext) => {
    for (const { tool: other } of others) inject(`other:${other.name}`)
  })
  const flooded = await written(() => 1, undefined, { options: { tools: [flooding, ...others] } })
  assert.deepEqual([flooded.error?.code, flooded.effects.length], ['LIMIT_EXCEEDED', 100])
  const shown = tool((_args: object, { inject }: ToolContext) => inject('test:hidden'))
  const root = { ...alice, permissions: ['root'] }
  const allowed = await written(() => 1, undefined, { options: { tools: [shown, hidden] }, given: { identity: root } })
  assert.deepEqual(allowed.effects, [{ kind: 'tool', tool: 'test:hidden' }])
})

test('effects of a tool are dropped after its call has ended', async () => {
  const contexts: ToolContext[] = []
  const left: Json[] = []
  const host: EffectSink = { send: (message) => void left.push(message), ...files() }
  const result = await written((_args, context) => void contexts.push(context), host)
  const [context] = contexts
  assert.ok(context !== undefined)
  context.send('late')
  context.inject('no id')
  await assert.rejects(context.attach({ name: 'a', content: 'b' }), { code: 'CANCELLED' })
  assert.deepEqual([left, result.effects], [[], []])
})

test('an invalid effectSink option is refused before the tool starts', async () => {
  for (const effectSink of [5, { send: 'no' }, null] as never[]) {
    const { error } = await written(() => assert.fail('it ran'), effectSink)
    assert.deepEqual(
      [error?.code, error?.message],
      ['INPUT_INVALID', 'Invalid options of the call: /effectSink must be an object with the functions send or keep.'],
    )
  }
})

test('each call of a chain sends its effects to its own effectSink and lists them in its result', async () => {
  const left: unknown[] = []
  const gantry = createExecutor({ tools: [tool((_args, { send, callId }) => send(callId))] })
  const chain = await gantry.chain([{ id: 'a', tool: 'test:it', forEach: [1, 2] }], {
    around: ({ stepId, index }, call) => {
      const callId = `${stepId}.${index}`
      return call({ callId, effectSink: { send: (message, number) => void left.push([callId, message, number]) } })
    },
  })
  await gantry.close()
  assert.deepEqual(left, [
    ['a.0', 'a.0', 1],
    ['a.1', 'a.1', 1],
  ])
  assert.deepEqual(
    chain.steps[0]?.results.map(({ effects }) => effects),
    [[{ kind: 'message', message: 'a.0' }], [{ kind: 'message', message: 'a.1' }]],
  )
})
