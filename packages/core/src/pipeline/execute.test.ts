import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import { inspect } from 'node:util'
import { type EffectClass, ToolError } from '@gantry/contract'
import { memoryAudit } from '../audits/memory.ts'
import type { ToolContext } from '../backends/backend.ts'
import { createExecutor } from '../executor.ts'
import { defineTool, type ToolDefinition } from '../tools/tool.ts'

const anything = { type: 'object' } as const

function tool(
  run: (args: object, context: ToolContext) => unknown,
  rest: Partial<ToolDefinition<typeof anything>> = {},
) {
  return defineTool({ namespace: 'test', name: 'it', description: 'It.', inputSchema: anything, run, ...rest })
}

const never = () => new Promise<never>(() => undefined)

test('a tool that ignores its signal still ends on time for the caller', async () => {
  const gantry = createExecutor({ tools: [tool(never)] })
  const result = await gantry.run('test:it', {}, { timeoutMs: 5 })
  assert.equal(result.status, 'timeout')
  assert.equal(result.error?.code, 'TIMEOUT')
  assert.equal(result.error?.effect, 'possible')
  assert.equal(result.usage.hit, 'wallMs')
  await gantry.close()
})

test('the late result of a tool that was given up on changes nothing and is only told to subscribers', async () => {
  const late = Promise.withResolvers<unknown>()
  const gantry = createExecutor({
    tools: [
      tool(async (_args, context) => {
        await late.promise
        context.progress(1)
        context.send('too late')
        return 'late'
      }),
    ],
  })
  const told = Promise.withResolvers<string>()
  gantry.on('call:late', ({ ended }) => told.resolve(ended))
  const reports: unknown[] = []
  gantry.on('call:reported', (event) => reports.push(event))
  const result = await gantry.run('test:it', {}, { timeoutMs: 5 })
  const seen = structuredClone(result)
  late.resolve(undefined)
  assert.equal(await told.promise, 'returned')
  assert.deepEqual(result, seen)
  assert.deepEqual(reports, [])
})

test('cancel and timeout keep their identity whatever the tool throws because of them', async () => {
  const rude = tool(async (_args, { signal }) => {
    await once(signal, 'abort')
    throw new Error('something else entirely')
  })
  const gantry = createExecutor({ tools: [rude] })
  assert.equal((await gantry.run('test:it', {}, { timeoutMs: 5 })).status, 'timeout')
  const controller = new AbortController()
  const running = gantry.run('test:it', {}, { signal: controller.signal })
  controller.abort(new Error('user left'))
  const cancelled = await running
  assert.equal(cancelled.status, 'cancelled')
  assert.equal(cancelled.error?.cause?.message, 'user left')
})

test('the reason reaches the tool through its signal', async () => {
  const reasons: unknown[] = []
  const watching = tool((_args, { signal }) => {
    signal.addEventListener('abort', () => reasons.push(signal.reason))
    return never()
  })
  const gantry = createExecutor({ tools: [watching] })
  await gantry.run('test:it', {}, { timeoutMs: 5 })
  assert.ok(ToolError.is(reasons[0]) && reasons[0].code === 'TIMEOUT')
})

test('a signal that aborts because its time is over makes a timeout, not a cancel', async () => {
  const gantry = createExecutor({ tools: [tool(never)] })
  const result = await gantry.run('test:it', {}, { signal: AbortSignal.timeout(5) })
  assert.equal(result.status, 'timeout')
  assert.equal(result.error?.cause?.name, 'TimeoutError')
})

test('a tool that asks to be confined is refused where nothing can confine it', async () => {
  let calls = 0
  for (const demand of [{ profile: 'hardened' }, { runtime: 'docker' }, { egress: ['https://api.example.com'] }]) {
    const gantry = createExecutor({ tools: [tool(() => ++calls, demand)] })
    const result = await gantry.run('test:it')
    assert.equal(result.error?.code, 'RUNTIME_UNAVAILABLE', JSON.stringify(demand))
    assert.equal(result.error?.effect, 'none')
  }
  assert.equal(calls, 0)
})

test('a call that is cancelled before it starts changes nothing', async () => {
  let calls = 0
  const gantry = createExecutor({ tools: [tool(() => ++calls)] })
  const result = await gantry.run('test:it', {}, { signal: AbortSignal.abort() })
  assert.equal(result.status, 'cancelled')
  assert.equal(result.error?.effect, 'none')
  assert.equal(calls, 0)
})

test('the tool names a time, the call may name another, and the executor caps both', async () => {
  const quick = createExecutor({ tools: [tool(never, { timeoutMs: 5 })] })
  assert.match((await quick.run('test:it')).error?.message ?? '', /within 5 ms/)
  assert.match((await quick.run('test:it', {}, { timeoutMs: 7 })).error?.message ?? '', /within 7 ms/)
  const capped = createExecutor({ tools: [tool(never)], limits: { maxTimeoutMs: 6 } })
  assert.match((await capped.run('test:it', {}, { timeoutMs: 60_000 })).error?.message ?? '', /within 6 ms/)
})

test('wrong options of a call are refused as input, and the tool is not started', async () => {
  const gantry = createExecutor({ tools: [tool(() => assert.fail('started'))] })
  for (const options of [
    { signal: {} },
    { identity: { principal: 'x' } },
    { retry: { attempts: 0 } },
    { callId: '' },
  ]) {
    const result = await gantry.run('test:it', {}, options as never)
    assert.equal(result.error?.code, 'INPUT_INVALID', JSON.stringify(options))
  }
  for (const timeoutMs of [0, -1, Number.NaN, Number.POSITIVE_INFINITY]) {
    assert.equal((await gantry.run('test:it', {}, { timeoutMs })).error?.code, 'INPUT_INVALID')
  }
})

async function attemptsOf(effect: EffectClass, failure: () => unknown): Promise<number> {
  const gantry = createExecutor({
    tools: [
      tool(
        () => {
          throw failure()
        },
        { effect, retry: { attempts: 3, delayMs: 1 } },
      ),
    ],
    random: () => 0,
  })
  return (await gantry.run('test:it')).attempts
}

test('a failure is tried again only where the effect class allows it or nothing can have happened', async () => {
  const plain = () => new Error('flaky')
  for (const effect of ['read', 'keyed', 'repeatable'] as const)
    assert.equal(await attemptsOf(effect, plain), 3, effect)
  for (const effect of ['once', 'reconcilable'] as const) assert.equal(await attemptsOf(effect, plain), 1, effect)
  assert.equal(await attemptsOf('once', () => new ToolError('BACKEND_UNAVAILABLE', 'not reached')), 3)
  assert.equal(await attemptsOf('read', () => new ToolError('DENIED', 'no')), 1)
})

test('an attempt that succeeds ends the call, with the same idempotency key in every attempt', async () => {
  const keys: string[] = []
  const flaky = tool(
    (_args, { idempotencyKey, attempt }) => {
      keys.push(`${idempotencyKey} ${attempt}`)
      if (attempt < 3) throw new Error('flaky')
      return attempt
    },
    { effect: 'keyed', retry: { attempts: 5, delayMs: 1 } },
  )
  const gantry = createExecutor({ tools: [flaky], random: () => 0 })
  const result = await gantry.run('test:it', {}, { idempotencyKey: 'k' })
  assert.equal(result.output, 3)
  assert.equal(result.attempts, 3)
  assert.deepEqual(keys, ['k 1', 'k 2', 'k 3'])
})

test('a tool that limits itself runs no more at once, even when callers give up on it', async () => {
  const gates: (() => void)[] = []
  let running = 0
  let most = 0
  const narrow = tool(
    async () => {
      most = Math.max(most, ++running)
      await new Promise<void>((resolve) => gates.push(resolve))
      running -= 1
      return 1
    },
    { concurrency: 1 },
  )
  const gantry = createExecutor({ tools: [narrow] })
  assert.equal((await gantry.run('test:it', {}, { timeoutMs: 5 })).status, 'timeout')
  const second = gantry.run('test:it', {}, { timeoutMs: 5 })
  assert.equal((await second).error?.effect, 'none')
  assert.equal(gates.length, 1)
  gates[0]?.()
  const third = gantry.run('test:it')
  while (gates.length < 2) await new Promise((resolve) => setImmediate(resolve))
  gates[1]?.()
  assert.equal((await third).status, 'ok')
  assert.equal(most, 1)
})

test('only declared secrets reach a tool, and none leaves it', async () => {
  const secret = 'correct-horse-battery'
  const leaky = tool(
    (_args, context) => {
      assert.deepEqual(Object.keys(context.secrets), [])
      assert.equal(context.secrets.other, undefined)
      context.log(`using ${context.secrets.api}`)
      context.send({ token: Buffer.from(context.secrets.api ?? '').toString('base64') })
      if (context.attempt === 1) return { said: `it is ${context.secrets.api}`, list: [context.secrets.api ?? ''] }
      return null
    },
    { secrets: ['api'] },
  )
  const gantry = createExecutor({ tools: [leaky], secrets: { api: secret, other: 'not-for-this-tool' } })
  const events = []
  for await (const event of gantry.stream('test:it')) events.push(event)
  const text = JSON.stringify(events)
  assert.ok(!text.includes(secret) && !text.includes(Buffer.from(secret).toString('base64').replace(/=+$/, '')), text)
  assert.match(text, /it is \[redacted\]/)
})

test('a secret split over two chunks does not show, and none is in the record of a privileged call', async () => {
  const secret = 'correct-horse-battery'
  const audit = memoryAudit()
  const leaky = tool(
    async function* () {
      yield `it is ${secret.slice(0, 8)}`
      yield `${secret.slice(8)}, really`
      yield { n: 1 }
      yield 'correct'
    },
    { secrets: ['api'], permissions: ['x'] },
  )
  const gantry = createExecutor({ tools: [leaky], secrets: { api: secret }, audit })
  const chunks = []
  for await (const event of gantry.stream('test:it', { note: `mine is ${secret}` }))
    if (event.kind === 'chunk') chunks.push(event.data)
  assert.deepEqual(chunks, ['it is ', '[redacted], really', { n: 1 }, 'correct'])
  assert.ok(!JSON.stringify(audit.records()).includes(secret))
})

test('a secret in an error and its causes is redacted too', async () => {
  const secret = 'correct-horse-battery'
  const leaky = tool(
    () => {
      throw new Error(`bad token ${secret}`, { cause: new Error(`for ${secret}`) })
    },
    { secrets: ['api'] },
  )
  const gantry = createExecutor({ tools: [leaky], secrets: { api: secret } })
  const result = await gantry.run('test:it')
  assert.ok(!JSON.stringify(result).includes(secret))
  assert.equal(result.error?.message, 'bad token [redacted]')
})

test('what runOrThrow throws holds no secret either', async () => {
  const secret = 'correct-horse-battery'
  const leaky = tool(
    () => {
      throw new Error(`bad token ${secret}`, { cause: new Error(`for ${secret}`) })
    },
    { secrets: ['api'] },
  )
  const gantry = createExecutor({ tools: [leaky], secrets: { api: secret } })
  const thrown: unknown = await gantry.runOrThrow('test:it').catch((error: unknown) => error)
  assert.ok(ToolError.is(thrown))
  assert.equal(thrown.message, 'bad token [redacted]')
  assert.ok(!inspect(thrown, { depth: 10 }).includes(secret))
})

test('a secret that is not there stops the call before the tool starts', async () => {
  let calls = 0
  const gantry = createExecutor({ tools: [tool(() => ++calls, { secrets: ['api'] })] })
  const result = await gantry.run('test:it')
  assert.equal(result.error?.code, 'SECRET_UNAVAILABLE')
  assert.equal(result.error?.effect, 'none')
  assert.equal(calls, 0)
})

test('the functions of a context can be taken off it', async () => {
  const gantry = createExecutor({
    tools: [
      tool((_args, { progress, log, send, callId, tool: id, identity }) => {
        progress({ progress: 1, total: 2, message: 'half' })
        log('warn', 'careful', { n: 1 })
        log('plain')
        send({ hello: 'world' })
        return { callId, id, principal: identity.principal }
      }),
    ],
  })
  const events = []
  for await (const event of gantry.stream('test:it', {}, { callId: 'c-1' })) events.push(event)
  const [progress, warn, plain, done] = events
  assert.deepEqual(progress, { kind: 'progress', progress: 1, total: 2, message: 'half', id: 1, callId: 'c-1' })
  assert.deepEqual(warn, { kind: 'log', level: 'warn', message: 'careful', data: { n: 1 }, id: 2, callId: 'c-1' })
  assert.equal(plain?.kind === 'log' && plain.level, 'info')
  assert.ok(done?.kind === 'done')
  assert.deepEqual(done.result.output, { callId: 'c-1', id: 'test:it:1.0.0', principal: 'local' })
  assert.deepEqual(done.result.effects, [{ kind: 'message', message: { hello: 'world' } }])
})

test('a streaming tool that is given up on keeps its slot until it has really ended, and is told of late', async () => {
  const gate = Promise.withResolvers<void>()
  let running = 0
  let most = 0
  const narrow = tool(
    async function* () {
      most = Math.max(most, ++running)
      yield 1
      await gate.promise
      running -= 1
    },
    { concurrency: 1 },
  )
  const gantry = createExecutor({ tools: [narrow] })
  const late = Promise.withResolvers<string>()
  gantry.on('call:late', ({ ended }) => late.resolve(ended))
  assert.equal((await gantry.run('test:it', {}, { timeoutMs: 5 })).status, 'timeout')
  assert.equal((await gantry.run('test:it', {}, { timeoutMs: 5 })).error?.effect, 'none')
  gate.resolve()
  assert.equal(await late.promise, 'returned')
  assert.equal((await gantry.run('test:it')).status, 'ok')
  assert.equal(most, 1)
})

test('a time beyond what timers can hold is long, not instant', async () => {
  const gantry = createExecutor({
    tools: [tool(() => new Promise((resolve) => setImmediate(() => resolve('in time'))))],
    limits: { maxTimeoutMs: 1e12 },
  })
  assert.equal((await gantry.run('test:it', {}, { timeoutMs: 1e12 })).output, 'in time')
})

test('a wrong figure or log value does not fail a tool, and a message that is no JSON does', async () => {
  const careless = tool((_args, { progress, log }) => {
    progress(Number.NaN)
    log('odd', 5n as never)
    return 'fine'
  })
  assert.equal((await createExecutor({ tools: [careless] }).run('test:it')).output, 'fine')
  const sending = tool((_args, { send }) => send({ n: 5n } as never))
  const refused = await createExecutor({ tools: [sending] }).run('test:it')
  assert.equal(refused.error?.code, 'OUTPUT_INVALID')
  const flooding = tool((_args, { send }) => {
    for (let n = 0; n < 2_000; n++) send(n)
  })
  const flooded = await createExecutor({ tools: [flooding] }).run('test:it')
  assert.equal(flooded.error?.code, 'LIMIT_EXCEEDED')
  assert.equal(flooded.effects.length, 1_000)
})

test('a streaming tool that never waits still ends in time', async () => {
  const generators = [
    async function* () {
      for (;;) yield 'x'
    },
    function* () {
      for (;;) yield 'x'
    },
  ]
  for (const run of generators) {
    const gantry = createExecutor({ tools: [tool(run)] })
    assert.equal((await gantry.run('test:it', {}, { timeoutMs: 30 })).status, 'timeout')
    let last = ''
    for await (const event of gantry.stream('test:it', {}, { timeoutMs: 30 })) last = event.kind
    assert.equal(last, 'error')
  }
})

test('a slot that is granted while its call is cancelled is given back', async () => {
  for (let turns = 0; turns < 8; turns++) {
    const gantry = createExecutor({ tools: [tool(async () => 'done', { concurrency: 1 })] })
    const controller = new AbortController()
    const holder = gantry.run('test:it')
    const waiting = gantry.run('test:it', {}, { signal: controller.signal })
    for (let turn = 0; turn < turns; turn++) await Promise.resolve()
    controller.abort()
    await Promise.all([holder, waiting])
    assert.equal((await gantry.run('test:it', {}, { timeoutMs: 1_000 })).output, 'done', `after ${turns} turns`)
  }
})

test('a cut cannot hide a secret from redaction', async () => {
  const secret = 'correct-horse-battery'
  for (const length of [9_980, 9_990, 9_999]) {
    const text = `${'x'.repeat(length)}${secret} and more`
    const leaky = tool(
      (_args, { log, progress }) => {
        log(text)
        progress(1, 2, text)
        throw Object.assign(new Error(text), { code: `${'y'.repeat(90)}${secret}` })
      },
      { secrets: ['api'] },
    )
    const gantry = createExecutor({ tools: [leaky], secrets: { api: secret } })
    const events = []
    for await (const event of gantry.stream('test:it')) events.push(event)
    assert.ok(!/corre|horse/.test(JSON.stringify(events)), `cut at ${length}`)
  }
})

test('each attempt gets the arguments as they came', async () => {
  const seen: unknown[] = []
  const greedy = tool(
    (args) => {
      seen.push(structuredClone(args))
      ;(args as { list: number[] }).list.push(1)
      throw new Error('again')
    },
    { effect: 'read', retry: { attempts: 3, delayMs: 0 } },
  )
  await createExecutor({ tools: [greedy] }).run('test:it', { list: [] })
  assert.deepEqual(seen, [{ list: [] }, { list: [] }, { list: [] }])
})

test('a signal that is asked for after the call has ended is aborted, and keeps nothing alive', async () => {
  const kept: ToolContext[] = []
  const gantry = createExecutor({ tools: [tool((_args, context) => void kept.push(context))] })
  await gantry.run('test:it')
  assert.equal(kept[0]?.signal.aborted, true)
})
