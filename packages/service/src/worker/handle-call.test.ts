import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type ErrorInfo, type Result, ToolError } from '@gantry/contract'
import type { Claim, Ending } from '../storage/calls/call-store.ts'
import { stub } from '../stub.fixture.ts'
import { handleCall } from './handle-call.ts'
import type { WorkerPorts } from './ports.ts'
import type { Recorded } from './record/recorder.ts'
import type { Task } from './slot-scheduler.ts'
import { createUnrecordedOutcomes } from './unrecorded-outcomes.ts'
import { memoryBus, someClaim, someError, someResult } from './worker.fixture.ts'

interface Released {
  readonly delayMs?: number
  readonly counts?: string
}

const failed = someError({ code: 'INPUT_INVALID', effect: 'none' })

/** Handles a claimed call and returns what was released and recorded. */
async function handled(claim: Claim, execute: () => Promise<Result>, how?: Recorded) {
  const task: Task = { claim, fresh: false, controller: new AbortController(), takenAt: 0, stopped: undefined }
  const released: Released[] = []
  const recorded: (ErrorInfo | undefined)[] = []
  const ports = stub<WorkerPorts>({
    snapshots: { use: (work: (snapshot: object) => Promise<unknown>) => work({ version: 'v' }) },
    store: { release: async (those: readonly Released[]) => void released.push(...those) },
    bus: memoryBus(),
    begin: async () => true,
    execute,
    offload: async (_task: unknown, result: unknown) => ({ result }),
    recorder: {
      async finish({ result }: { result: { error?: ErrorInfo } }) {
        recorded.push(result.error)
        return how
      },
    },
    now: () => new Date(0),
  })
  await handleCall(task, ports, { slots: 1, maxDeaths: 3, ahead: 1 }, () => undefined)
  return {
    released: released.map(({ delayMs, counts }) => [delayMs, counts]),
    recorded: recorded.map((one) => one?.effect),
  }
}

const endingWith = (error: ErrorInfo) => async () => someResult({ status: 'failed', error })
const faulty = () => Promise.reject(new Error('The store refuses.'))

test('the outcome includes what a lost worker may have done, which does not keep a chain from waiting for a limit', async () => {
  const claim = someClaim({ lost: 1, deliveries: 2 }, { kind: 'chain', effect: 'repeatable', tool: 'chain' })
  const limited = someError({ code: 'RATE_LIMITED', effect: 'none', details: { retryAfterMs: 2_000 } })
  assert.deepEqual(await handled(claim, endingWith(limited)), { released: [[2_000, 'rest']], recorded: [] })
  assert.deepEqual(await handled(claim, endingWith(failed)), { released: [], recorded: ['possible'] })
})

test('a resumed chain or program may have changed something, however it ends', async () => {
  for (const kind of ['chain', 'code'] as const) {
    for (const effect of ['repeatable', 'once', 'read'] as const) {
      const claim = someClaim({ deliveries: 2 }, { kind, effect })
      assert.deepEqual(await handled(claim, endingWith(failed)), { released: [], recorded: ['possible'] })
      assert.deepEqual(await handled({ ...claim, faults: 9 }, faulty), { released: [], recorded: ['possible'] })
      const first = { ...claim, deliveries: 1 }
      assert.deepEqual(await handled(first, endingWith(failed)), { released: [], recorded: ['none'] })
    }
  }
  const call = someClaim({ deliveries: 2 }, { effect: 'repeatable' })
  assert.deepEqual(await handled(call, endingWith(failed)), { released: [], recorded: ['none'] })
  assert.deepEqual(await handled({ ...call, faults: 9 }, faulty), { released: [], recorded: ['none'] })
  assert.deepEqual(await handled({ ...call, faults: 9, lost: 1 }, faulty), { released: [], recorded: ['possible'] })
})

test('a call that fails to be handled is released some times, however often it slept or waited for approval before', async () => {
  const slept = someClaim({ deliveries: 5_000, rests: 150, faults: 8 }, { kind: 'code', effect: 'once' })
  assert.deepEqual(await handled(slept, faulty), { released: [[1_000, 'fault']], recorded: [] })
  assert.deepEqual(await handled({ ...slept, faults: 9 }, faulty), { released: [], recorded: ['possible'] })
})

test('a program that sleeps or waits for approval is released without counting as a fault', async () => {
  const claim = someClaim({}, { kind: 'code', effect: 'once' })
  const sleeping = async () => stub<Result>({ pausedMs: 5_000 })
  assert.deepEqual(await handled(claim, sleeping), { released: [[5_000, undefined]], recorded: [] })
  const details = { approvalId: 'ap_1', expiresMs: 60_000 }
  const asked = someError({ code: 'APPROVAL_REQUIRED', stage: 'authorize', effect: 'none', details })
  assert.deepEqual(await handled(claim, endingWith(asked)), { released: [[60_000, undefined]], recorded: [] })
})

test('a call is released only once it is stored, and not at all when it never is', async () => {
  const limited = someError({ code: 'RATE_LIMITED', effect: 'none', details: { retryAfterMs: 2_000 } })
  const entering = Promise.withResolvers<void>()
  const handing = handled(someClaim({ entering: entering.promise }), endingWith(limited))
  const first = await Promise.race([
    handing.then(() => 'handed back'),
    new Promise((resolve) => setImmediate(resolve, 'waits')),
  ])
  assert.equal(first, 'waits')
  entering.resolve()
  assert.deepEqual(await handing, { released: [[2_000, 'rest']], recorded: [] })
  const never = Promise.reject(new Error('unavailable'))
  assert.deepEqual(await handled(someClaim({ entering: never }), endingWith(limited)), { released: [], recorded: [] })
})

test('a call whose outcome was left by the recorder is released at once, and one with its outcome in the spool is not', async () => {
  const claim = someClaim({ unflushed: true })
  const ok = async () => someResult({})
  assert.deepEqual((await handled(claim, ok, 'left')).released, [[0, undefined]])
  assert.deepEqual((await handled(claim, ok, 'spooled')).released, [])
})

test('the outcome of a call that lost reports has their number, and carries the events that are left', async () => {
  const unstored = { events: [{ callId: 'c-1', fence: 1, id: 1_000_001, event: '{}' }], lost: 6 }
  const endings: Ending[] = []
  const bus = memoryBus()
  const ports = stub<WorkerPorts>({
    snapshots: { use: (work: (snapshot: object) => Promise<unknown>) => work({ version: 'v' }) },
    bus,
    begin: async () => true,
    async execute(_snapshot: unknown, task: Task) {
      task.unstored = unstored
      return someResult()
    },
    offload: async (_task: unknown, result: unknown) => ({ result }),
    recorder: { finish: async (ending: Ending) => void endings.push(ending) },
    now: () => new Date(0),
  })
  const task: Task = {
    claim: someClaim(),
    fresh: false,
    controller: new AbortController(),
    takenAt: 0,
    stopped: undefined,
  }
  await handleCall(task, ports, { slots: 1, maxDeaths: 3, ahead: 1 }, () => undefined)
  const [ending] = endings
  assert.deepEqual(ending?.events, unstored.events)
  assert.match(JSON.stringify(ending?.result), /6 reports of the call were lost/)
  const lost = bus.received.find(({ name }) => name === 'events:lost')
  assert.equal((lost?.event as { events?: number } | undefined)?.events, 6)
})

test('when the database refuses an outcome for good, an error is recorded in its place', async () => {
  const endings: Ending[] = []
  const ports = {
    snapshots: { use: (work: (snapshot: object) => Promise<unknown>) => work({ version: 'v' }) },
    bus: memoryBus(),
    begin: async () => true,
    execute: async () => someResult(),
    offload: async (_task: unknown, result: unknown) => ({ result }),
    recorder: {
      async finish(ending: Ending) {
        if (ending.result.status === 'ok') throw new ToolError('INTERNAL', 'The database refused a statement.')
        endings.push(ending)
      },
    },
    pause: async () => undefined,
    random: () => 0,
    now: () => new Date(0),
  } as unknown as WorkerPorts
  const claim = someClaim()
  const task: Task = { claim, fresh: false, controller: new AbortController(), takenAt: 0, stopped: undefined }
  const held = createUnrecordedOutcomes(ports)
  held.giveUp()
  await handleCall(task, ports, { slots: 1, maxDeaths: 3, ahead: 1 }, () => undefined, held)
  assert.deepEqual(
    endings.map(({ result, dead }) => [result.error?.code, dead?.reason]),
    [['INTERNAL', 'The store refused its outcome.']],
  )
})
