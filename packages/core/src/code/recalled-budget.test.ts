import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { JsonObject, Result } from '@gantry/contract'
import { createExecutor } from '@gantry/tools'
import { memoryArtifacts } from '../artifacts/memory.ts'
import type { InnerOutcome } from '../backends/program-journal.ts'
import type { CodeOptions } from '../executor-interface.ts'
import { defineTool } from '../tools/tool.ts'
import { memoryJournal } from './journal.fixture.ts'

let made = 0
const count = defineTool({
  namespace: 'test',
  name: 'count',
  description: 'Counts its calls.',
  inputSchema: { type: 'object' },
  run: () => {
    made += 1
    return made
  },
})
const gantry = createExecutor({ tools: [count], artifacts: memoryArtifacts() })
after(() => gantry.close())

const run = (code: string, options: CodeOptions): Promise<Result> =>
  gantry.code(code, { language: 'javascript', ...options })
const endOf = ({ error, status }: Result): string =>
  error === undefined ? status : `${error.code} ${error.details?.limit}`

const five = 'for (let i = 0; i < 5; i++) await tools.test.count()'
const nested = (code: string): string =>
  `await tools.code.program({ language: 'javascript', code: ${JSON.stringify(code)} })`
const chained = "await chain([1, 2, 3, 4, 5].map(() => ({ tool: 'test:count' })))"

/** Each makes at least five calls in one request. */
const parts = { 'a nested program': nested(five), 'a doubly nested program': nested(nested(five)), 'a chain': chained }

for (const [name, part] of Object.entries(parts)) {
  test(`journaled calls of ${name} count against the budget of the resumed program`, async () => {
    const code = `${part}; ${part}`
    const limits = { toolCalls: 9 }
    const first = memoryJournal()
    assert.equal(endOf(await run(code, { limits, program: first })), 'LIMIT_EXCEEDED toolCalls')
    made = 0
    const again = memoryJournal({ journaled: first.entries.slice(0, 1) })
    assert.equal(endOf(await run(code, { limits, program: again })), 'LIMIT_EXCEEDED toolCalls')
    assert.ok(made <= 4, `${made} more calls were made`)
    const enough = memoryJournal({ journaled: first.entries.slice(0, 1) })
    assert.equal(endOf(await run(code, { limits: { toolCalls: 14 }, program: enough })), 'ok')
  })
}

test('a journaled program without a call count is counted by its list of calls', async () => {
  const code = `${nested(five)}; ${nested(five)}`
  const first = memoryJournal()
  await run(code, { program: first })
  const journaled = first.entries.slice(0, 1).map((entry) => {
    const { calls: _calls, ...outcome } = entry.outcome
    return { ...entry, outcome }
  })
  const again = memoryJournal({ journaled })
  assert.equal(endOf(await run(code, { limits: { toolCalls: 9 }, program: again })), 'LIMIT_EXCEEDED toolCalls')
})

test('all calls of a chain count against the budget when it is resumed midway', async () => {
  const done = new Map<string, Result>()
  const within = (recalled: boolean) =>
    memoryJournal({
      around: (ask, make): Promise<InnerOutcome> =>
        make(
          ask.kind !== 'chain'
            ? {}
            : {
                recalls: ({ stepId }) => done.has(stepId),
                async around({ stepId }, call) {
                  const result = (recalled ? done.get(stepId) : undefined) ?? (await call())
                  done.set(stepId, result)
                  return result
                },
              },
        ),
    })
  const code = `${chained}; ${five}`
  assert.equal(endOf(await run(code, { limits: { toolCalls: 10 }, program: within(false) })), 'ok')
  assert.equal(endOf(await run(code, { limits: { toolCalls: 9 }, program: within(true) })), 'LIMIT_EXCEEDED toolCalls')
})

test('the bytes of journaled files count against the limit of a resumed program', async () => {
  const code = "await artifacts.put('a', 'A'); await artifacts.put('b', 'B')"
  const first = memoryJournal()
  assert.equal(endOf(await run(code, { program: first })), 'ok')
  for (const [bytes, message] of [
    [67_108_863, undefined],
    [67_108_864, /67108864 bytes/],
  ] as const) {
    const journaled = first.entries.slice(0, 1).map((entry) => {
      const { value } = entry.outcome as { readonly value: JsonObject }
      return { ...entry, outcome: { kind: 'value' as const, value: { ...value, bytes } } }
    })
    const { status, error } = await run(code, { program: memoryJournal({ journaled }) })
    if (message === undefined) assert.equal(status, 'ok')
    else assert.match(error?.message ?? '', message)
  }
})

test('members of groups count as chain steps, and all chains share one budget', async () => {
  const group = "{ parallel: [{ tool: 'test:count' }, { tool: 'test:count' }, { tool: 'test:count' }] }"
  const limits = { chainSteps: 5 }
  assert.equal(endOf(await run(`await chain([${group}])`, { limits })), 'ok')
  made = 0
  const two = await run(`await chain([${group}]); await chain([${group}])`, { limits })
  assert.deepEqual([endOf(two), made], ['LIMIT_EXCEEDED chainSteps', 3])
})
