import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { defineTool } from '@gantry/core'
import { createExecutor } from '@gantry/tools'
import { createSnapshots } from '../config/snapshots.ts'
import { createBus } from '../observe/bus.ts'
import { switchedResponses } from '../observe/unresponsive.fixture.ts'
import { memoryCallStore } from '../storage/calls/memory.ts'
import { createIntake } from './intake.ts'

const ada = { principal: 'ada', tenant: 'acme', permissions: [] }
const input = { kind: 'call' as const, tool: 'test:act', args: {}, idempotencyKey: 'k' }

/** An intake over a database that stops answering, and answers again, when the test says so. */
function openIntake(t: TestContext) {
  const act = defineTool({
    namespace: 'test',
    name: 'act',
    description: 'Acts once.',
    effect: 'once',
    cost: 1,
    inputSchema: { type: 'object' },
    run: async () => ({}),
  })
  const snapshots = createSnapshots({ executor: createExecutor({ tools: [act] }), version: '1' })
  t.after(() => snapshots.close())
  const memory = memoryCallStore({ now: () => 0 })
  const [sent, thaw, charged, mayCharge] = Array.from({ length: 4 }, () => Promise.withResolvers<void>())
  const ids = [1, 2, 3].values()
  const health = switchedResponses()
  const state = { charges: false, refunds: 0, submissions: 0 }
  const intake = createIntake({
    snapshots,
    bus: createBus(),
    worker: undefined,
    claim: () => ({ worker: 'w', leaseMs: 1_000 }),
    store: {
      ...memory,
      async submit(calls, claim) {
        state.submissions += 1
        sent?.resolve()
        if (health.isUnresponsive('database') || health.listeners > 0) await thaw?.promise
        return memory.submit(calls, claim)
      },
    },
    depth: { full: () => undefined, take: async () => ({ keep() {}, leave() {} }), look: async () => 0 },
    settings: { maxQueued: 10, callbacks: {}, callbackOrigins: [], inlineBytes: 1_000, artifactBytes: 1_000 },
    gate: {
      enter: () => undefined,
      inside: () => undefined,
      counts: () => false,
      place: () => undefined,
      mostAtOnce: () => Number.POSITIVE_INFINITY,
      shares: () => undefined,
      async spend() {
        charged?.resolve()
        if (state.charges) await mayCharge?.promise
        return () => {
          state.refunds += 1
        }
      },
    },
    health,
    unanswered: { add: () => undefined },
    artifacts: { keep: () => assert.fail('nothing is large'), withdraw: async () => undefined },
    expect: () => undefined,
    newId: () => `c-${ids.next().value}`,
    flushes: false,
  })
  const becomeUnresponsive = health.fall
  const answerAgain = (): void => {
    health.end()
    thaw?.resolve()
  }
  return { intake, memory, state, sent, charged, mayCharge, becomeUnresponsive, answerAgain }
}

test('a submission in flight when the database stops answering is refused at once, and its retry finds the call', async (t) => {
  const { intake, memory, sent, becomeUnresponsive, answerAgain } = openIntake(t)
  const refused = assert.rejects(intake.submit(input, ada), {
    code: 'STORE_UNAVAILABLE',
    retryable: true,
    effect: 'possible',
    details: { outcome: 'unknown', retryAfterMs: 1_000 },
  })
  await sent?.promise
  becomeUnresponsive()
  await refused
  answerAgain()
  await new Promise(setImmediate)
  assert.deepEqual(await intake.submit(input, ada), { callId: 'c-1', repeated: true })
  assert.equal((await memory.claim(10, { worker: 'w', leaseMs: 1_000 })).length, 1)
})

test('while the database does not answer, the intake refuses a call without submitting it', async (t) => {
  const { intake, state, becomeUnresponsive, answerAgain } = openIntake(t)
  becomeUnresponsive()
  await assert.rejects(intake.submit(input, ada), {
    code: 'STORE_UNAVAILABLE',
    effect: 'none',
    details: { outcome: 'none', retryAfterMs: 1_000 },
  })
  assert.equal(state.submissions, 0)
  answerAgain()
  assert.equal((await intake.submit(input, ada)).repeated, false)
})

test('a call that was refused during its checks is not submitted when the database answers again', async (t) => {
  const { intake, state, charged, mayCharge, becomeUnresponsive, answerAgain } = openIntake(t)
  state.charges = true
  const refused = assert.rejects(intake.submit(input, ada), { code: 'STORE_UNAVAILABLE', effect: 'none' })
  await charged?.promise
  becomeUnresponsive()
  await refused
  answerAgain()
  mayCharge?.resolve()
  await new Promise(setImmediate)
  assert.deepEqual([state.submissions, state.refunds], [0, 1])
})
