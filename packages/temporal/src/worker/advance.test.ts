import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { JsonObject } from '@gantry/contract'
import { type AuditRecord, createExecutor, defineTool, lazyRuntimes } from '@gantry/core'
import { createRuntimes } from '@gantry/sandbox/internal/runtimes/create-runtimes'
import { createWasmRuntime } from '@gantry/sandbox-wasm'
import type { AdvanceAnswer, AdvanceInput, JournalEntry, WorkDocument, WorkRequest } from '../protocol/work.ts'
import { advanceWork } from './advance.ts'
import { resultOf } from './call-requests.ts'
import { createWorkJournals } from './work-journals.ts'

const add = defineTool({
  namespace: 'sum',
  name: 'add',
  effect: 'read',
  timeoutMs: 5_000,
  description: 'Adds.',
  inputSchema: { type: 'object' },
  run: () => assert.fail('an advance makes no call'),
})
const records: AuditRecord[] = []
const audit = { write: (record: AuditRecord) => void records.push(record) }
const executor = createExecutor({
  tools: [add],
  audit,
  runtimes: lazyRuntimes(() => createRuntimes({ runtimes: [createWasmRuntime()] })),
})
after(() => executor.close())

const identity = { principal: 'ann', tenant: 'acme', permissions: [] }
const workOf = (kind: WorkDocument['kind'], body: JsonObject): WorkDocument => ({
  kind,
  id: 'w',
  identity,
  seed: 7,
  heartbeatMs: 10_000,
  body,
})
const chainOf = (...steps: JsonObject[]) => workOf('chain', { steps, input: 1, limits: {} })
const programOf = (code: string) => workOf('program', { code, language: 'javascript' })

function advance(
  work: WorkDocument,
  journal: readonly JournalEntry[] = [],
  more: Partial<AdvanceInput> = {},
): Promise<AdvanceAnswer> {
  const input: AdvanceInput = { from: 0, entries: journal, running: [], ...more }
  return advanceWork({ executor, audit, work, journal, input, startedMs: 1_000, signal: AbortSignal.timeout(60_000) })
}

function requestsOf(answer: AdvanceAnswer): readonly WorkRequest[] {
  assert.equal(answer.kind, 'waits')
  return answer.kind === 'waits' ? answer.requests : []
}

function endOf(answer: AdvanceAnswer): JsonObject {
  assert.equal(answer.kind, 'end', JSON.stringify(answer))
  return answer.kind === 'end' ? answer.end : {}
}

/** The journal entry of a call that gave this output. */
function done(request: WorkRequest | undefined, output: JsonObject | number): JournalEntry {
  assert.ok(request !== undefined)
  const { key, fingerprint } = request
  const none = resultOf({ kind: 'error', error: lost }, `w.${key}`, 'sum:add', 0)
  const { error: _, ...result } = none
  return { key, fingerprint, atMs: 2_000, outcome: { kind: 'result', result: { ...result, status: 'ok', output } } }
}

const lost = {
  code: 'OUTCOME_UNKNOWN',
  message: 'lost',
  stage: 'execute',
  retryable: false,
  effect: 'possible',
} as const
const two = chainOf(
  { id: 'one', tool: 'sum:add', args: { a: '{{input}}' } },
  { id: 'two', tool: 'sum:add', args: { a: '{{prev}}' }, timeoutMs: 100 },
)

test('a chain requests each step with the outputs before it, its effect and its time, and ends', async () => {
  const [one, ...others] = requestsOf(await advance(two))
  assert.deepEqual(others, [])
  assert.ok(one?.kind === 'call')
  assert.deepEqual([one.key, one.args, one.effect, one.runMs], ['one', { a: 1 }, 'read', 65_000])
  const journal = [done(one, 5)]
  const [next] = requestsOf(await advance(two, journal))
  assert.ok(next?.kind === 'call')
  assert.deepEqual([next.key, next.args, next.timeoutMs], ['two', { a: 5 }, 100])
  const end = endOf(await advance(two, [...journal, done(next, 6)]))
  assert.deepEqual([end.status, end.output, end.startedAt], ['ok', 6, new Date(1_000).toISOString()])
})

test('members of a group are requested together, and those that run are not requested again', async () => {
  const group = chainOf({
    id: 'all',
    parallel: ['a', 'b', 'c'].map((id) => ({ id, tool: 'sum:add', args: {} })),
  })
  assert.deepEqual(
    requestsOf(await advance(group)).map(({ key }) => key),
    ['a', 'b', 'c'],
  )
  const running = ['a', 'b']
  assert.deepEqual(
    requestsOf(await advance(group, [], { running })).map(({ key }) => key),
    ['c'],
  )
})

test('a call whose worker was lost fails its step with an unknown outcome', async () => {
  const [one] = requestsOf(await advance(two))
  const { key = '', fingerprint = '' } = one ?? {}
  const end = endOf(await advance(two, [{ key, fingerprint, atMs: 1, outcome: { kind: 'error', error: lost } }]))
  assert.deepEqual([end.status, (end.error as JsonObject).code], ['unknown', 'OUTCOME_UNKNOWN'])
})

test('a journal of another chain is a divergence', async () => {
  const [one] = requestsOf(await advance(two))
  const changed = chainOf({ id: 'one', tool: 'sum:add', args: { a: 2 } })
  const end = endOf(await advance(changed, [done(one, 5)]))
  assert.equal((end.error as JsonObject).code, 'CODE_DIVERGED')
})

test('work that is stopped ends as cancelled, or by its timeout', async () => {
  const code = programOf('await sleep(1000)')
  for (const work of [two, code]) {
    assert.equal((endOf(await advance(work, [], { stop: 'cancelled' })).error as JsonObject).code, 'CANCELLED')
    assert.equal((endOf(await advance(work, [], { stop: 'timeout' })).error as JsonObject).code, 'TIMEOUT')
  }
})

test('a program requests calls, steps of chains and sleeps together, and makes its reads itself', async () => {
  const work = programOf(`
    const found = await search('adds')
    const all = await Promise.all([
      tools.sum.add({ a: 1 }),
      sleep(500).then(() => 'slept'),
      chain([{ id: 's', tool: 'sum:add', args: { a: 2 } }]),
    ])
    return [found.length, ...all]`)
  const answer = await advance(work)
  const requests = requestsOf(answer)
  assert.deepEqual(requests.map(({ kind, key }) => [kind, key]).toSorted(), [
    ['call', '2'],
    ['call', '4.s'],
    ['sleep', '3'],
  ])
  assert.ok(answer.kind === 'waits')
  const [call, sleep, step] = ['2', '3', '4.s'].map((key) => requests.find((one) => one.key === key))
  const slept: JournalEntry = {
    key: sleep?.key ?? '',
    fingerprint: sleep?.fingerprint ?? '',
    atMs: 2_000,
    outcome: { kind: 'value', value: null },
  }
  const journal = [...answer.made, done(step, 12), slept, done(call, 11)]
  const end = endOf(await advance(work, journal))
  assert.deepEqual([end.error, end.output], [undefined, [1, 11, 'slept', 12]])
})

test('a program is on the audit log at its first start and its end, not for each advance', async () => {
  records.length = 0
  const work = programOf('return await tools.sum.add({ a: 1 })')
  const [call] = requestsOf(await advance(work))
  assert.deepEqual(
    records.map(({ phase }) => phase),
    ['start'],
  )
  requestsOf(await advance(work, [], { running: ['1'] }))
  endOf(await advance(work, [done(call, 1)]))
  assert.deepEqual(
    records.map(({ phase }) => phase),
    ['start', 'end'],
  )
})

test('a worker that lacks the beginning of a journal says so, and an advance whose answer was lost does not count', () => {
  const journals = createWorkJournals()
  const entry = (key: string): JournalEntry => ({
    key,
    fingerprint: '',
    atMs: 0,
    outcome: { kind: 'value', value: key },
  })
  const read = (more: Partial<AdvanceInput>) =>
    journals.read('w', { from: 0, entries: [], running: [], ...more })?.journal.map(({ key }) => key)
  assert.equal(read({ from: 1 }), undefined)
  assert.deepEqual(read({ start: { work: two, startedMs: 0 }, entries: [entry('a')] }), ['a'])
  assert.deepEqual(read({ from: 1, entries: [entry('b')] }), ['a', 'b'])
  assert.deepEqual(read({ from: 1, entries: [entry('c')] }), ['a', 'c'])
  assert.equal(read({ from: 3 }), undefined)
  journals.forget('w')
  assert.equal(read({ from: 1 }), undefined)
})
