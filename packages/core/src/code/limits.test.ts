import assert from 'node:assert/strict'
import { once } from 'node:events'
import { after, test } from 'node:test'
import { type Result, ToolError } from '@gantry/contract'
import { createExecutor } from '@gantry/tools'
import { demoTools } from '@gantry/tools/internal/demo'
import type { CodeOptions } from '../executor-interface.ts'
import { defineTool } from '../tools/tool.ts'
import { memoryJournal } from './journal.fixture.ts'

const waiting: AbortSignal[] = []
const wait = defineTool({
  namespace: 'test',
  name: 'wait',
  description: 'Waits until it is stopped.',
  inputSchema: { type: 'object' },
  async run(_, { signal }) {
    waiting.push(signal)
    await once(signal, 'abort')
    return null
  },
})
const gantry = createExecutor({ tools: [...demoTools(), wait] })
after(() => gantry.close())

const run = (code: string, options: CodeOptions = {}): Promise<Result> =>
  gantry.code(code, { language: 'javascript', ...options })

test('each limit of a program ends it, and the error names the limit', async () => {
  const cases: readonly (readonly [string, CodeOptions['limits'] & object, string])[] = [
    ['for (;;) await tools.demo.add({ a: 1, b: 2 })', { toolCalls: 3 }, 'LIMIT_EXCEEDED toolCalls'],
    [
      "await chain([{ tool: 'demo:add', args: { a: 1, b: 2 } }, { tool: 'demo:add', args: { a: 1, b: 2 } }])",
      { chainSteps: 1 },
      'LIMIT_EXCEEDED chainSteps',
    ],
    ['for (;;);', { wallMs: 100 }, 'TIMEOUT wallMs'],
    ['await tools.test.wait()', { wallMs: 100 }, 'TIMEOUT wallMs'],
    ['await sleep(60_000)', { wallMs: 100 }, 'TIMEOUT wallMs'],
    ['for (;;);', { cpuMs: 50 }, 'LIMIT_EXCEEDED cpuMs'],
    [
      'const all = []; for (;;) all.push(new Array(1e5).fill(0))',
      { memoryBytes: 16_777_216 },
      'LIMIT_EXCEEDED memoryBytes',
    ],
    ["for (;;) print('x'.repeat(60_000))", { stdoutBytes: 1_000 }, 'LIMIT_EXCEEDED stdoutBytes'],
  ]
  for (const [code, limits, expected] of cases) {
    const { error, output, program } = await run(code, { limits })
    assert.deepEqual([`${error?.code} ${error?.details?.limit}`, output], [expected, null], code)
    assert.equal(program?.language, 'javascript', code)
  }
})

test('printed output over stdoutBytes is truncated and marked as truncated', async () => {
  const { status, program } = await run("print('x'.repeat(2_000)); return 1", { limits: { stdoutBytes: 1_000 } })
  assert.deepEqual([status, program?.printed.length, program?.truncated], ['ok', 1_000, true])
})

test('a cancelled program aborts its running calls, and its result lists the calls that it made', async () => {
  const controller = new AbortController()
  waiting.length = 0
  const running = run("print('before'); await tools.demo.add({ a: 1, b: 2 }); await tools.test.wait()", {
    signal: controller.signal,
  })
  while (waiting.length === 0) await new Promise((resolve) => setImmediate(resolve))
  controller.abort()
  const { status, program } = await running
  assert.equal(status, 'cancelled')
  assert.equal(waiting[0]?.aborted, true)
  assert.deepEqual([program?.printed, program?.calls[0]?.tool], ['before\n', 'demo:add'])
})

test('the timeout of the call ends its program and aborts the running inner calls', async () => {
  waiting.length = 0
  const { status } = await run('await tools.test.wait()', { timeoutMs: 300 })
  assert.equal(status, 'timeout')
  assert.ok(waiting.every(({ aborted }) => aborted))
})

test('a failed program aborts its running calls', async () => {
  waiting.length = 0
  const code = "await Promise.all([tools.test.wait(), tools.demo.fail({ message: 'x' })])"
  const { error } = await run(code)
  assert.equal(error?.code, 'CODE_FAILED')
  assert.equal(waiting[0]?.aborted, true)
})

test('failed programs do not open a circuit, so that one caller cannot block the tool for others', async () => {
  const stuck = new ToolError('STORE_UNAVAILABLE', 'The journal is unavailable.')
  for (let round = 0; round < 12; round += 1) {
    const journal = memoryJournal({ around: () => Promise.reject(round % 2 === 0 ? stuck : new Error('paused')) })
    await run('await tools.demo.add({ a: 1, b: 2 })', { program: journal })
    await run("throw new Error('x')")
  }
  assert.equal((await run('return 1')).output, 1)
  assert.deepEqual(
    gantry.circuits.list().filter(({ key }) => key.startsWith('code:')),
    [],
  )
})

test('a program cannot exceed the program limits of the executor, and invalid ones are refused', async () => {
  const own = createExecutor({ tools: demoTools(), limits: { program: { toolCalls: 2, wallMs: 10_000 } } })
  const code = 'for (let i = 0; i < 3; i++) await tools.demo.add({ a: 1, b: 2 })'
  for (const limits of [{}, { toolCalls: 500 }]) {
    const { error } = await own.code(code, { limits })
    assert.deepEqual([error?.code, error?.details?.limit], ['LIMIT_EXCEEDED', 'toolCalls'])
  }
  assert.equal((await own.code(code.replace('3', '2'))).status, 'ok')
  await own.close()
  for (const program of [{ toolCall: 1 }, { depth: 0 }, { wallMs: 1.5 }, 5]) {
    assert.throws(() => createExecutor({ limits: { program: program as object } }), { code: 'CONFIG_INVALID' })
  }
})
