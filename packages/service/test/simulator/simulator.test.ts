import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { CallStore } from '../../src/storage/calls/call-store.ts'
import type { Outcome } from '../../src/worker/ports.ts'
import type { Task } from '../../src/worker/slot-scheduler.ts'
import { type Mutation, simulate } from './simulate.ts'

const schedules = 1_500

test(`${schedules} schedules with crashes, lost responses and late lease holders keep every invariant`, async () => {
  for (let seed = 1; seed <= schedules; seed++) {
    assert.deepEqual(await simulate(seed), [], `seed ${seed}`)
  }
})

test('the same seed is the same schedule', async () => {
  const seeds = Array.from({ length: 20 }, (_, n) => n + 1)
  const mutation: Mutation = { store: neverReclaims }
  const once = await Promise.all(seeds.map((seed) => simulate(seed, mutation)))
  const again = await Promise.all(seeds.map((seed) => simulate(seed, mutation)))
  assert.deepEqual(again, once)
  assert.ok(once.flat().length > 0)
})

/** A store that never reclaims expired leases, as a queue that acknowledges before execution. */
function neverReclaims(store: CallStore): CallStore {
  return { ...store, reclaim: async () => ({ lost: [], promoted: 0, expired: [] }) }
}

/** Accepts every outcome, whatever its fence. */
function withoutFence(store: CallStore): CallStore {
  return {
    ...store,
    async finish(endings) {
      await store.finish(endings)
      return endings.map(({ callId }) => callId)
    },
  }
}

/** A store that never resumes a call after its approval is decided. */
function neverResumes(store: CallStore): CallStore {
  return {
    ...store,
    resume: async () => undefined,
    release: (holders) => store.release(holders.map((one) => (one.asked === true ? { ...one, delayMs: 1e12 } : one))),
  }
}

/** A store that never offers a call to another worker after one lacked its tool. */
function neverOffered(store: CallStore): CallStore {
  return {
    ...store,
    offer: async () => 0,
    release: (holders) => store.release(holders.map((one) => (one.needs ? { ...one, delayMs: 1e12 } : one))),
  }
}

/** The outcome without the details that mark it as waiting for approval. */
function asEnd(outcome: Outcome): Outcome {
  return outcome.error === undefined ? outcome : { ...outcome, error: { ...outcome.error, details: {} } }
}

/** The task with a tool that needs no approval. */
function unasked(task: Task): Task {
  const { claim } = task
  return Object.create(task, { claim: { value: { ...claim, call: { ...claim.call, tool: 'sim:it:1.0.0' } } } })
}

const brokenBuilds: { readonly [what: string]: { readonly mutation: Mutation; readonly shows: RegExp } } = {
  'expired leases that are never reclaimed': { mutation: { store: neverReclaims }, shows: /has no outcome/ },
  'outcomes without a fence': { mutation: { store: withoutFence }, shows: /outcomes|acted|heard/ },
  'a start that is not durable': {
    mutation: { ports: (ports) => ({ ...ports, begin: async () => true }) },
    shows: /\(once\) acted|\(reconcilable\) acted/,
  },
  'a reply before the commit': {
    mutation: { ports: (ports) => ({ ...ports, recorder: { ...ports.recorder, finish: async () => 'accepted' } }) },
    shows: /has no outcome|heard/,
  },
  'a redelivered call that is dropped': {
    mutation: {
      ports: (ports) => ({
        ...ports,
        transport: {
          ...ports.transport,
          receive: async (max, signal) =>
            (await ports.transport.receive(max, signal)).filter(({ deliveries }) => deliveries === 1),
        },
      }),
    },
    shows: /has no outcome/,
  },
  'a decided approval that does not resume its call': { mutation: { store: neverResumes }, shows: /has no outcome/ },
  'a call that is never claimed again because its first worker lacked its tool': {
    mutation: { store: neverOffered },
    shows: /has no outcome/,
  },
  'a worker that completes a call that waits for approval': {
    mutation: {
      ports: (ports) => ({ ...ports, execute: async (...of) => asEnd((await ports.execute(...of)) as Outcome) }),
    },
    shows: /is denied although it is open/,
  },
  'a worker that skips the approval': {
    mutation: { ports: (ports) => ({ ...ports, execute: (snapshot, task) => ports.execute(snapshot, unasked(task)) }) },
    shows: /acted without approval/,
  },
  'outcomes that are dropped while the database is unavailable': {
    mutation: {
      ports: (ports) => ({
        ...ports,
        recorder: {
          ...ports.recorder,
          finish: async (ending) => {
            const [accepted] = await ports.store.finish([ending]).catch(() => [ending.callId])
            return accepted === undefined ? 'refused' : 'accepted'
          },
        },
      }),
    },
    shows: /heard/,
  },
}

for (const [what, { mutation, shows }] of Object.entries(brokenBuilds)) {
  test(`the simulation finds ${what}`, async () => {
    for (let seed = 1; seed <= schedules; seed++) {
      const found = await simulate(seed, mutation)
      if (found.some((line) => shows.test(line))) return
    }
    assert.fail(`nothing found in ${schedules} schedules`)
  })
}
