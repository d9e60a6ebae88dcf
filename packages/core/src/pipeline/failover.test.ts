import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ToolError } from '@gantry/contract'
import type { Backend, BackendContext } from '../backends/backend.ts'
import { createExecutor } from '../executor.ts'
import type { Executor } from '../executor-interface.ts'
import type { ExecutorOptions } from '../executor-options.ts'
import { defineTool, type ToolDefinition } from '../tools/tool.ts'
import { anything } from './pipeline.fixture.ts'

type Call = (context: BackendContext) => unknown

function backend(name: string, call: Call, more: Partial<Backend> = {}): Backend {
  return { kind: 'remote', name, call: (_call, context) => call(context), ...more }
}

/** An executor with a tool `test:it` that has these backends, in this order. */
function withBackends(
  backends: readonly Backend[],
  rest: Partial<ToolDefinition<typeof anything>> = {},
  options: ExecutorOptions = {},
): Executor {
  const bindings = backends.map(({ kind, name }) => ({ kind, name }))
  const definition = { namespace: 'test', name: 'it', description: 'It.', inputSchema: anything, backends: bindings }
  return createExecutor({ backends, tools: [defineTool({ ...definition, ...rest })], ...options })
}

const down = (): never => {
  throw new ToolError('BACKEND_UNAVAILABLE', 'No backend answers.')
}

test('a call that one backend did not start fails over to the next', async () => {
  const gantry = withBackends([backend('a', down), backend('b', () => 'from b')])
  const observed: unknown[] = []
  gantry.on('call:failover', ({ from, to, failure }) => observed.push([from.name, to.name, failure.code]))
  const result = await gantry.run('test:it')
  assert.equal(result.output, 'from b')
  assert.deepEqual(result.backend, { kind: 'remote', name: 'b' })
  assert.equal(result.attempts, 2)
  assert.deepEqual(observed, [['a', 'b', 'BACKEND_UNAVAILABLE']])
})

test('a call that may have started at one backend does not fail over', async () => {
  let calls = 0
  const failures = [
    new Error('it broke'),
    new ToolError('BACKEND_FAILED', 'It broke.'),
    new ToolError('BACKEND_UNAVAILABLE', 'It went away.', { effect: 'possible' }),
    new ToolError('INPUT_INVALID', 'It does not fit.', { effect: 'none' }),
  ]
  for (const failure of failures) {
    const second = backend('b', () => ++calls)
    const gantry = withBackends([backend('a', () => Promise.reject(failure)), second])
    assert.notEqual((await gantry.run('test:it')).status, 'ok')
  }
  assert.equal(calls, 0)
})

test('a stream that has started does not fail over', async () => {
  const broken = backend('a', async function* () {
    yield 'first'
    throw new ToolError('BACKEND_UNAVAILABLE', 'It went away.')
  })
  const gantry = withBackends([broken, backend('b', () => 'from b')])
  const kinds: string[] = []
  for await (const event of gantry.stream('test:it')) kinds.push(event.kind)
  assert.deepEqual(kinds, ['chunk', 'error'])
})

test('a call that no backend starts ends with the error of the last backend', async () => {
  const gantry = withBackends([backend('a', down), backend('b', down)])
  const { error, attempts } = await gantry.run('test:it')
  assert.equal(error?.code, 'BACKEND_UNAVAILABLE')
  assert.equal(error?.effect, 'none')
  assert.equal(attempts, 2)
})

test('each backend receives its own copy of the arguments', async () => {
  const seen: unknown[] = []
  const spoil: Backend = {
    kind: 'remote',
    name: 'a',
    call({ args }) {
      args.value = 'spoiled'
      return down()
    },
  }
  const keep: Backend = { kind: 'remote', name: 'b', call: ({ args }) => seen.push(args.value) }
  await withBackends([spoil, keep]).run('test:it', { value: 'whole' })
  assert.deepEqual(seen, ['whole'])
})

test('a caller may choose only a backend that the tool is bound to', async () => {
  const stranger = backend('c', () => 'from c')
  const own = [backend('a', () => 'from a'), backend('b', () => 'from b')]
  const gantry = withBackends(own, {}, { backends: [...own, stranger] })
  assert.equal((await gantry.run('test:it', {}, { backend: 'remote:b' })).output, 'from b')
  const refused = await gantry.run('test:it', {}, { backend: 'remote:c' })
  assert.equal(refused.error?.code, 'NO_BACKEND')
  assert.match(refused.error?.message ?? '', /does not run on remote:c/)
})

test('a call with a chosen backend does not fail over', async () => {
  const gantry = withBackends([backend('a', down), backend('b', () => 'from b')])
  assert.equal((await gantry.run('test:it', {}, { backend: 'remote:a' })).error?.code, 'BACKEND_UNAVAILABLE')
})

test('a disabled backend is skipped until it is enabled', async () => {
  const gantry = withBackends([backend('a', () => 'from a'), backend('b', () => 'from b')])
  gantry.backends.disable('remote:a')
  assert.equal((await gantry.run('test:it')).output, 'from b')
  gantry.backends.disable('remote:b')
  const none = await gantry.run('test:it')
  assert.equal(none.error?.code, 'NO_BACKEND')
  assert.match(none.error?.message ?? '', /all are disabled/)
  gantry.backends.enable('remote:a')
  assert.equal((await gantry.run('test:it')).output, 'from a')
  assert.throws(() => gantry.backends.disable('remote:x'), { code: 'NO_BACKEND' })
})

test('a backend that cannot enforce the demands of a tool is skipped for one that can', async () => {
  const loose = backend('a', () => 'loose')
  const strict = backend('b', () => 'strict', { enforces: ['egress'] })
  const gantry = withBackends([loose, strict], { egress: ['https://api.example.com'] })
  assert.equal((await gantry.run('test:it')).output, 'strict')
})

test('health lists every backend, including those without a health check and those whose check fails', async () => {
  const gantry = withBackends([
    backend('a', down, { health: async () => ({ status: 'up' }) }),
    backend('b', down, { health: () => Promise.reject(new Error('no answer')) }),
    backend('c', down),
  ])
  const health = await gantry.backends.health()
  assert.deepEqual(
    health.filter(({ kind }) => kind === 'remote').map(({ key, status, message }) => [key, status, message]),
    [
      ['remote:a', 'up', undefined],
      ['remote:b', 'down', 'no answer'],
      ['remote:c', 'unknown', undefined],
    ],
  )
  // Built-in backends that no tool is bound to are not listed.
  assert.equal(health.length, 3)
})

test('a circuit opens for a failing backend, and calls run on another backend', async () => {
  let asked = 0
  const failing = backend('a', () => {
    asked += 1
    return down()
  })
  const breaker = { minCalls: 3, openMs: 60_000 }
  const gantry = withBackends([failing, backend('b', () => 'from b')], {}, { safeguards: { breaker } })
  const changes: string[] = []
  gantry.on('circuit:changed', ({ kind, name }) => changes.push(`${kind} ${name}`))
  for (let call = 0; call < 10; call++) assert.equal((await gantry.run('test:it')).output, 'from b')
  assert.equal(asked, 3)
  assert.deepEqual(changes, ['opened test:it @ remote:a'])
  const later = withBackends([failing], {}, { safeguards: { breaker } })
  later.circuits.restore(JSON.parse(JSON.stringify(gantry.circuits.snapshot())))
  assert.equal((await later.run('test:it')).error?.code, 'CIRCUIT_OPEN')
  assert.equal(asked, 3)
})

test('invalid input, denials and failures that a tool reports do not open a circuit', async () => {
  const answers = [
    () => {
      throw new ToolError('DENIED', 'No.')
    },
    () => ({ success: false, error: 'not today' }),
    () => ({ content: [{ type: 'text', text: 'no such file' }], isError: true }),
  ]
  for (const answer of answers) {
    const gantry = withBackends([backend('a', answer)], {}, { safeguards: { breaker: { minCalls: 2 } } })
    for (let call = 0; call < 10; call++) {
      assert.notEqual((await gantry.run('test:it')).error?.code, 'CIRCUIT_OPEN')
    }
    for (let call = 0; call < 10; call++) await gantry.run('test:it', 'not an object')
    assert.notEqual(gantry.circuits.list()[0]?.state, 'open')
  }
})

test('timeouts open a circuit', async () => {
  const deaf = backend('a', () => new Promise(() => undefined))
  const gantry = withBackends([deaf], {}, { safeguards: { breaker: { minCalls: 3 } } })
  for (let call = 0; call < 3; call++)
    assert.equal((await gantry.run('test:it', {}, { timeoutMs: 5 })).status, 'timeout')
  assert.equal((await gantry.run('test:it')).error?.code, 'CIRCUIT_OPEN')
})

test('a retry waits for the retryAfterMs of the backend', async () => {
  const asked: number[] = []
  const busy = backend('a', () => {
    asked.push(performance.now())
    if (asked.length > 1) return 'done'
    throw new ToolError('RATE_LIMITED', 'Later.', { details: { retryAfterMs: 100 } })
  })
  const gantry = withBackends([busy], { effect: 'read', retry: { attempts: 2, delayMs: 1 } }, { random: () => 0 })
  assert.equal((await gantry.run('test:it')).output, 'done')
  const [first = 0, second = 0] = asked
  // Timers may fire a little early, never by half.
  assert.ok(second - first > 90)
})

test('a backend gets no more concurrent calls and no higher rate than its safeguards allow', async () => {
  let [running, most] = [0, 0]
  const slow = backend('a', async () => {
    running += 1
    most = Math.max(most, running)
    await new Promise((resolve) => setTimeout(resolve, 5))
    running -= 1
  })
  const bulkhead = { concurrency: 2, queue: 3 }
  const gantry = withBackends([slow], {}, { safeguards: { backends: { 'remote:a': { bulkhead } } } })
  const results = await Promise.all(Array.from({ length: 8 }, () => gantry.run('test:it')))
  assert.equal(most, 2)
  assert.equal(results.filter(({ status }) => status === 'ok').length, 5)
  assert.equal(results.find(({ error }) => error !== undefined)?.error?.code, 'RATE_LIMITED')
  assert.equal((await gantry.run('test:it')).status, 'ok', 'all places are free again')

  const rate = { perSecond: 0.001, burst: 2 }
  const limited = withBackends([backend('a', () => 1)], {}, { safeguards: { rate } })
  const codes = [await limited.run('test:it'), await limited.run('test:it'), await limited.run('test:it')]
  assert.deepEqual(
    codes.map(({ error }) => error?.code),
    [undefined, undefined, 'RATE_LIMITED'],
  )
})

test('the retry budget limits the retries that a failing backend receives', async () => {
  let asked = 0
  const failing = backend('a', () => {
    asked += 1
    return down()
  })
  const rule = { effect: 'read', retry: { attempts: 3, delayMs: 0 } } as const
  const safeguards = { breaker: false, retryBudget: { ratio: 0.2, minPerSecond: 0 } } as const
  const gantry = withBackends([failing], rule, { safeguards })
  for (let call = 0; call < 100; call++) await gantry.run('test:it')
  assert.equal(asked, 120)
})

test('a safeguard for an unknown backend is refused with the nearest name', () => {
  assert.throws(
    () => withBackends([backend('github', down)], {}, { safeguards: { backends: { 'remote:gitub': {} } } }),
    /safeguards\/backends\/remote:gitub is not a backend \(did you mean "remote:github"/,
  )
})

test('a bulkhead slot is released when the tool ends, not when its caller times out', async () => {
  let [running, most] = [0, 0]
  const deaf = backend('a', async () => {
    running += 1
    most = Math.max(most, running)
    await new Promise((resolve) => setTimeout(resolve, 60))
    running -= 1
  })
  const safeguards = { breaker: false, bulkhead: { concurrency: 2, queue: 50 } } as const
  const gantry = withBackends([deaf], {}, { safeguards })
  await Promise.all(Array.from({ length: 10 }, () => gantry.run('test:it', {}, { timeoutMs: 30 })))
  assert.equal(most, 2)
  while (running > 0) await new Promise((resolve) => setTimeout(resolve, 10))
  assert.equal((await gantry.run('test:it', {}, { timeoutMs: 5_000 })).status, 'ok')
})

test('timeouts shorter than the usual duration of a backend do not open its circuit', async () => {
  const steady = backend('a', () => new Promise((resolve) => setTimeout(resolve, 40, 'done')))
  const gantry = withBackends([steady], {}, { safeguards: { breaker: { minCalls: 3 } } })
  assert.equal((await gantry.run('test:it')).status, 'ok')
  for (let call = 0; call < 8; call++) {
    assert.equal((await gantry.run('test:it', {}, { timeoutMs: 5 })).status, 'timeout')
  }
  assert.equal((await gantry.run('test:it')).status, 'ok')
})

test('reports, health and failover reasons of a backend contain none of its secrets', async () => {
  const canary = 'canary-4711-secret'
  const observed: unknown[] = []
  const talkative: Backend = {
    kind: 'remote',
    name: 'a',
    attach(host) {
      void host.secret('token', AbortSignal.timeout(1_000)).then(() => {
        host.report({ kind: 'log', message: `uses ${canary}` })
      })
    },
    call: () => {
      throw new ToolError('BACKEND_UNAVAILABLE', `no ${canary}`, { cause: new Error(`deep ${canary}`) })
    },
    health: async () => ({ status: 'down', message: `not with ${canary}` }),
  }
  const gantry = withBackends([talkative, backend('b', () => 'from b')], {}, { secrets: { token: canary } })
  gantry.on('backend:reported', (event) => observed.push(event))
  gantry.on('call:failover', (event) => observed.push(event))
  await new Promise((resolve) => setImmediate(resolve))
  assert.equal((await gantry.run('test:it')).output, 'from b')
  observed.push(await gantry.backends.health())
  assert.equal(observed.length, 3)
  assert.ok(!JSON.stringify(observed).includes(canary), JSON.stringify(observed))
})

test('a successful call aborts its signal, unless its only backend is tidy', async () => {
  const kept: AbortSignal[] = []
  const keep: Call = async ({ signal }) => void kept.push(signal)
  const keepAnd =
    (end: () => never): Call =>
    async (context) => {
      await keep(context)
      end()
    }
  const broken = (): never => {
    throw new Error('It broke.')
  }
  await withBackends([backend('a', keep)]).run('test:it')
  await withBackends([backend('a', keep, { tidy: true })]).run('test:it')
  await withBackends([backend('a', keepAnd(broken), { tidy: true })]).run('test:it')
  await withBackends([backend('a', keepAnd(down)), backend('b', () => 'from b', { tidy: true })]).run('test:it')
  assert.deepEqual(
    kept.map(({ aborted }) => aborted),
    [true, false, true, true],
  )
})
