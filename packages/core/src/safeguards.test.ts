import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { sandboxTest } from '@gantry/conformance/internal/sandbox-test'
import { type ErrorCode, type Result, type Tool, ToolError } from '@gantry/contract'
import { didNotStart } from '@gantry/sandbox/internal/backends/sandboxed'
import { createExecutor } from '@gantry/tools'
import { builtinTools } from '@gantry/tools/internal/builtin'
import type { Backend } from './backends/backend.ts'
import { here, serve } from './egress/egress.fixture.ts'
import type { Executor } from './executor-interface.ts'
import { anything } from './pipeline/pipeline.fixture.ts'
import type { BreakerEvent } from './resilience/circuit.ts'
import type { SafeguardOptions } from './safeguards.ts'
import { defineTool } from './tools/tool.ts'

const key = 'test:it @ remote:a'
const down = (): never => {
  throw new ToolError('BACKEND_UNAVAILABLE', 'No backend answers.')
}

interface Setup {
  readonly gantry: Executor
  /** The behaviour of the backend. */
  readonly backend: { answer: (signal: AbortSignal) => unknown; calls: number }
  readonly events: BreakerEvent[]
}

/** A tool `test:it` at a backend whose circuit opens at the second failure. */
function setUp(safeguards: SafeguardOptions, rest: Partial<Tool> = {}): Setup {
  const state: Setup['backend'] = { answer: () => 'well', calls: 0 }
  const remote: Backend = {
    kind: 'remote',
    name: 'a',
    call: (_call, { signal }) => {
      state.calls += 1
      return state.answer(signal)
    },
  }
  const bound = { inputSchema: anything, backends: [{ kind: 'remote', name: 'a' }] }
  const tool = defineTool({ namespace: 'test', name: 'it', description: 'It.', ...bound, ...rest })
  const breaker = { minCalls: 2, openMs: 60_000 }
  const gantry = createExecutor({ backends: [remote], tools: [tool], safeguards: { breaker, ...safeguards } })
  const events: BreakerEvent[] = []
  gantry.on('circuit:changed', (event) => events.push(event))
  return { gantry, backend: state, events }
}

const stateOf = ({ gantry }: Setup): string | undefined => gantry.circuits.list()[0]?.state

test('a circuit that another instance opened refuses calls until another instance closes it', async () => {
  const setup = setUp({})
  const { gantry, backend, events } = setup
  gantry.circuits.hold(key, 5_000, 3)
  const { error } = await gantry.run('test:it')
  assert.equal(error?.code, 'CIRCUIT_OPEN')
  assert.equal(error?.effect, 'none')
  assert.equal(backend.calls, 0)
  gantry.circuits.close(key)
  assert.equal((await gantry.run('test:it')).output, 'well')
  assert.deepEqual(
    events.map(({ kind, elsewhere }) => [kind, elsewhere]),
    [
      ['opened', true],
      ['closed', true],
    ],
  )
})

test('circuits of unknown backends and of backends without a breaker are ignored', () => {
  const { gantry } = setUp({ backends: { 'remote:a': { breaker: false } } })
  for (const other of [key, 'test:it @ remote:b', 'test:it', '', 'x @ remote:ab']) {
    gantry.circuits.hold(other, 5_000, 1)
    gantry.circuits.close(other)
  }
  assert.deepEqual(gantry.circuits.list(), [])
})

test('no trial is requested while a circuit is closed or open', async () => {
  let asked = 0
  const setup = setUp({ trials: async () => ++asked })
  await setup.gantry.run('test:it')
  setup.backend.answer = down
  for (let call = 0; call < 5; call++) await setup.gantry.run('test:it')
  assert.equal(stateOf(setup), 'open')
  assert.equal(setup.backend.calls, 2)
  assert.equal(asked, 0)
})

test('one of many concurrent calls becomes the trial when the circuit may be tried', async () => {
  const asked: string[] = []
  const leave = Promise.withResolvers<number>()
  const { gantry, backend } = setUp({
    trials(circuit) {
      asked.push(circuit)
      return leave.promise
    },
  })
  gantry.circuits.hold(key, 0, 1)
  const answer = Promise.withResolvers<string>()
  backend.answer = () => answer.promise
  const calls = Array.from({ length: 10 }, () => gantry.run('test:it'))
  await turn()
  assert.equal(backend.calls, 0)
  leave.resolve(0)
  await turn()
  answer.resolve('well')
  const results = await Promise.all(calls)
  assert.equal(backend.calls, 1)
  assert.deepEqual(new Set(asked), new Set([`${key} for "local"`]))
  assert.deepEqual(results.map(({ status, error }) => error?.code ?? status).sort(), [
    ...Array.from({ length: 9 }, () => 'CIRCUIT_OPEN'),
    'ok',
  ])
})

test('a refused trial keeps the circuit open for the given time, without another request', async () => {
  let asked = 0
  const { gantry, backend } = setUp({ trials: async () => (++asked === 1 ? 7_000 : 0) })
  gantry.circuits.hold(key, 0, 1)
  for (let call = 0; call < 3; call++) {
    const { error } = await gantry.run('test:it')
    const waitMs = Number(error?.details?.retryAfterMs)
    assert.ok(error?.code === 'CIRCUIT_OPEN' && waitMs > 6_000 && waitMs <= 7_000, JSON.stringify(error))
  }
  assert.equal(asked, 1)
  assert.equal(backend.calls, 0)
})

test('a circuit that closes during a trial request allows the call, whatever the answer', async () => {
  const leave = Promise.withResolvers<number>()
  const setup = setUp({ trials: () => leave.promise })
  setup.gantry.circuits.hold(key, 0, 1)
  const call = setup.gantry.run('test:it')
  await turn()
  setup.gantry.circuits.close(key)
  leave.resolve(5_000)
  assert.equal((await call).status, 'ok')
  assert.equal(stateOf(setup), 'closed')
})

test('a trial request that fails or has a malformed answer allows the trial', async () => {
  const faulty: readonly NonNullable<SafeguardOptions['trials']>[] = [
    () => Promise.reject(new Error('away')),
    () => {
      throw new Error('away')
    },
    async () => Number.NaN,
    async () => 'no' as unknown as number,
  ]
  for (const trials of faulty) {
    const { gantry } = setUp({ trials, bulkhead: { concurrency: 1, queue: 5 } })
    gantry.circuits.hold(key, 0, 1)
    const results = await Promise.all([gantry.run('test:it'), gantry.run('test:it')])
    assert.deepEqual(
      results.map(({ status }) => status),
      ['ok', 'ok'],
    )
  }
})

test('a call that is cancelled during its trial request makes no trial, and the next call gets its slot', async () => {
  const answers = [Promise.withResolvers<number>(), Promise.withResolvers<number>()]
  let asked = 0
  const trials = (): Promise<number> => answers[asked++]?.promise ?? Promise.resolve(0)
  const setup = setUp({ trials, bulkhead: { concurrency: 1, queue: 5 } })
  setup.gantry.circuits.hold(key, 0, 1)
  const leaving = new AbortController()
  const first = setup.gantry.run('test:it', {}, { signal: leaving.signal })
  const second = setup.gantry.run('test:it')
  await turn()
  leaving.abort()
  assert.equal((await first).status, 'cancelled')
  answers[0]?.resolve(0)
  await turn()
  assert.equal(asked, 2)
  assert.equal(setup.backend.calls, 0)
  answers[1]?.resolve(0)
  assert.equal((await second).status, 'ok')
  assert.equal(setup.backend.calls, 1)
})

const of = (tenant: string) => ({ identity: { principal: 'p', tenant, permissions: ['*'] } })
const codeOf = async (run: Promise<Result>): Promise<string> => {
  const { status, error } = await run
  return error?.code ?? status
}

test('failed calls of one tenant do not open the circuit for other tenants', async () => {
  const setup = setUp({})
  setup.backend.answer = down
  for (let call = 0; call < 10; call++) await setup.gantry.run('test:it', {}, of('a'))
  assert.equal(setup.backend.calls, 2)
  setup.backend.answer = () => 'well'
  assert.equal(await codeOf(setup.gantry.run('test:it', {}, of('a'))), 'CIRCUIT_OPEN')
  assert.equal(await codeOf(setup.gantry.run('test:it', {}, of('b'))), 'ok')
  const [circuit] = setup.gantry.circuits.list()
  assert.deepEqual([circuit?.key, circuit?.state], [key, 'closed'])
  assert.deepEqual(
    circuit?.tenants.map(({ tenant, state }) => `${tenant} ${state}`),
    ['a open', 'b closed'],
  )
})

test('a backend that fails for several tenants opens the circuit for all', async () => {
  const setup = setUp({})
  setup.backend.answer = down
  for (const tenant of ['a', 'b', 'c', 'd']) {
    for (let call = 0; call < 3; call++) await setup.gantry.run('test:it', {}, of(tenant))
  }
  assert.equal(setup.backend.calls, 4)
  assert.equal(stateOf(setup), 'open')
  assert.equal(setup.gantry.circuits.reset(key), true)
  setup.backend.answer = () => 'well'
  assert.equal(await codeOf(setup.gantry.run('test:it', {}, of('d'))), 'ok')
})

test('thrown errors of a local function open its circuit; invalid input and reported failures do not', async () => {
  let [calls, mode] = [0, 'answer']
  const flaky = defineTool({
    ...{ namespace: 'test', name: 'flaky', description: 'It.' },
    inputSchema: { type: 'object', properties: { n: { type: 'number' } } },
    run: () => {
      calls += 1
      if (mode === 'throw') throw new Error('broken')
      return { success: false, error: 'not today' }
    },
  })
  const gantry = createExecutor({ tools: [flaky] })
  for (let call = 0; call < 10; call++) await gantry.run('test:flaky', { n: 'x' })
  for (let call = 0; call < 10; call++) assert.equal(await codeOf(gantry.run('test:flaky')), 'BACKEND_FAILED')
  mode = 'throw'
  for (let call = 0; call < 20; call++) await gantry.run('test:flaky')
  assert.equal(calls, 20, 'as many faults as answers open it')
  assert.equal(await codeOf(gantry.run('test:flaky')), 'CIRCUIT_OPEN')
  await gantry.close()
})

test('the breaker can be disabled for a tool, a backend or all', async () => {
  const run = (): never => {
    throw new Error('broken')
  }
  const definition = { namespace: 'test', description: 'It.', inputSchema: anything, run }
  const free = defineTool({ ...definition, name: 'free', breaker: false })
  const guarded = defineTool({ ...definition, name: 'guarded' })
  const without = [
    createExecutor({ tools: [free, guarded] }),
    createExecutor({ tools: [free, guarded], safeguards: { backends: { local: { breaker: false } } } }),
    createExecutor({ tools: [free, guarded], safeguards: { breaker: false } }),
  ]
  const found: string[][] = []
  for (const gantry of without) {
    for (let call = 0; call < 10; call++)
      await Promise.all(['free', 'guarded'].map((name) => gantry.run(`test:${name}`)))
    found.push(await Promise.all(['free', 'guarded'].map((name) => codeOf(gantry.run(`test:${name}`)))))
    await gantry.close()
  }
  assert.deepEqual(found, [
    ['BACKEND_FAILED', 'CIRCUIT_OPEN'],
    ['BACKEND_FAILED', 'BACKEND_FAILED'],
    ['BACKEND_FAILED', 'BACKEND_FAILED'],
  ])
})

test('a call fails at once while its circuit is open, unless onCircuitOpen is wait', async () => {
  /** Opens the circuit for longer than any test runs, or for a moment. */
  const rests = ({ gantry }: Setup, restMs: number): void => {
    gantry.circuits.close(key)
    gantry.circuits.hold(key, restMs, 1)
  }
  const steps = [{ id: 'one', tool: 'test:it' }]
  const plain = setUp({})
  rests(plain, 60_000)
  assert.equal(await codeOf(plain.gantry.run('test:it')), 'CIRCUIT_OPEN')
  assert.equal((await plain.gantry.chain(steps)).error?.code, 'CIRCUIT_OPEN')
  assert.equal(plain.backend.calls, 0)
  rests(plain, 20)
  assert.equal(await codeOf(plain.gantry.run('test:it', {}, { onCircuitOpen: 'wait' })), 'ok')
  rests(plain, 20)
  assert.equal((await plain.gantry.chain(steps, { onCircuitOpen: 'wait' })).status, 'ok')

  const patient = setUp({}, { onCircuitOpen: 'wait' })
  rests(patient, 60_000)
  assert.equal(await codeOf(patient.gantry.run('test:it', {}, { onCircuitOpen: 'fail' })), 'CIRCUIT_OPEN')
  rests(patient, 20)
  assert.equal(await codeOf(patient.gantry.run('test:it')), 'ok')
  const wrong = { onCircuitOpen: 'later' as 'wait' }
  assert.equal(await codeOf(plain.gantry.run('test:it', {}, wrong)), 'INPUT_INVALID')
})

test('a call fails at once if its circuit stays open beyond its timeout', async () => {
  const setup = setUp({})
  setup.backend.answer = down
  for (let call = 0; call < 2; call++) await setup.gantry.run('test:it')
  const { error } = await setup.gantry.run('test:it', {}, { onCircuitOpen: 'wait', timeoutMs: 5_000 })
  assert.equal(error?.code, 'CIRCUIT_OPEN')
  assert.ok(Number(error?.details?.retryAfterMs) > 5_000)
})

test('a retry does not wait for a circuit, and the error keeps the effect of an earlier attempt', async () => {
  const setup = setUp({}, { effect: 'repeatable', retry: { attempts: 5, delayMs: 0 } })
  setup.backend.answer = () => {
    throw new ToolError('TIMEOUT', 'No answer.', { effect: 'possible' })
  }
  const { error, attempts } = await setup.gantry.run('test:it')
  assert.deepEqual([error?.code, error?.effect, attempts], ['TIMEOUT', 'possible', 2])
  // An open time that the retry rule would wait for.
  setup.gantry.circuits.close(`${key} for "local"`)
  setup.gantry.circuits.hold(`${key} for "local"`, 5_000, 1)
  const { error: next, attempts: none } = await setup.gantry.run('test:it')
  assert.deepEqual([next?.code, next?.effect, none], ['CIRCUIT_OPEN', 'none', 0])
})

test('an unreachable origin opens the circuit of http:fetch for that origin only', async (t) => {
  const server = await serve(t, (_, response) => response.end('here'))
  // No server listens on port 1.
  const gone = { origin: 'http://127.0.0.1:1' }
  const gantry = createExecutor({
    tools: builtinTools(),
    egress: { allow: here(server, gone) },
    safeguards: { breaker: { minCalls: 2, openMs: 60_000 } },
  })
  t.after(() => gantry.close())
  const fetch = (origin: string): Promise<string> => codeOf(gantry.run('http:fetch', { url: `${origin}/x` }))
  for (let call = 0; call < 2; call++) assert.equal(await fetch(gone.origin), 'BACKEND_UNAVAILABLE')
  assert.equal(await fetch(gone.origin), 'CIRCUIT_OPEN')
  assert.equal(await fetch(server.origin), 'ok')
  assert.equal(await fetch('https://not-allowed.example'), 'EGRESS_DENIED')
  assert.deepEqual(
    gantry.circuits.list().map((one) => `${one.key} ${one.state}`),
    [`http:fetch @ web > ${gone.origin} open`, `http:fetch @ web > ${server.origin} closed`],
  )
})

sandboxTest('programs that time out or fail do not open the circuit of the sandbox', async () => {
  const gantry = createExecutor({
    tools: builtinTools(),
    runtimes: { pool: false },
    safeguards: { breaker: { minCalls: 2 } },
  })
  for (let call = 0; call < 3; call++) {
    assert.equal(await codeOf(gantry.run('shell:run', { argv: ['sleep', '20'] }, { timeoutMs: 300 })), 'TIMEOUT')
  }
  for (let call = 0; call < 3; call++) assert.equal(await codeOf(gantry.run('shell:run', { argv: ['false'] })), 'ok')
  assert.equal(await codeOf(gantry.run('shell:run', { argv: ['true'] })), 'ok')
  await gantry.close()
})

test('a sandbox that does not start counts as a failure; errors of its program do not', () => {
  const counted = (code: ErrorCode, retryable: boolean): boolean =>
    didNotStart(new ToolError(code, 'It.', { retryable }))
  assert.equal(counted('SANDBOX_INIT_FAILED', true), true)
  assert.equal(counted('RUNTIME_UNAVAILABLE', true), true)
  assert.equal(counted('RUNTIME_UNAVAILABLE', false), false, 'no runtime here will ever serve it')
  for (const code of ['TIMEOUT', 'BACKEND_FAILED', 'LIMIT_EXCEEDED', 'OUTCOME_UNKNOWN'] as const) {
    assert.equal(counted(code, true), false, code)
  }
})

test('safeguards.trials must be a function', () => {
  const wrong = { trials: true } as unknown as SafeguardOptions
  assert.throws(() => setUp(wrong), {
    code: 'CONFIG_INVALID',
    message: 'Invalid options of safeguards: /safeguards/trials must be a function.',
  })
})
