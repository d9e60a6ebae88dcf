import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { CallStore } from '../../src/storage/calls/call-store.ts'
import type { Outcome } from '../../src/worker/ports.ts'
import type { Task } from '../../src/worker/slot-scheduler.ts'
import { type Mutation, simulate } from './simulate.ts'

const schedules = 1_500

test(`${schedules} schedules with crashes, lost answers and late holders keep every promise`, async () => {
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

/** A claim that outlives its holder, as in a queue that is acknowledged before the work is done. */
function neverReclaims(store: CallStore): CallStore {
  return { ...store, reclaim: async () => ({ lost: [], promoted: 0, expired: [] }) }
}

/** Every outcome counts, whoever holds the call. */
function withoutFence(store: CallStore): CallStore {
  return {
    ...store,
    async finish(endings) {
      await store.finish(endings)
      return endings.map(({ callId }) => callId)
    },
  }
}

/** A call that is asked waits for its person and for nothing else, and nobody tells it of the decision. */
function neverResumes(store: CallStore): CallStore {
  return {
    ...store,
    resume: async () => undefined,
    release: (holders) => store.release(holders.map((one) => (one.asked === true ? { ...one, delayMs: 1e12 } : one))),
  }
}

/** A call whose tool a worker does not have waits for ever, because no worker is offered it. */
function neverOffered(store: CallStore): CallStore {
  return {
    ...store,
    offer: async () => 0,
    release: (holders) => store.release(holders.map((one) => (one.needs ? { ...one, delayMs: 1e12 } : one))),
  }
}

/** An outcome that says the same, and does not say that it is no end. */
function asEnd(outcome: Outcome): Outcome {
  return outcome.error === undefined ? outcome : { ...outcome, error: { ...outcome.error, details: {} } }
}

/** A task of which nobody knows that its call needs approval. */
function unasked(task: Task): Task {
  const { claim } = task
  return Object.create(task, { claim: { value: { ...claim, call: { ...claim.call, tool: 'sim:it:1.0.0' } } } })
}

const brokenBuilds: { readonly [what: string]: { readonly mutation: Mutation; readonly shows: RegExp } } = {
  'a claim that is never taken from a dead holder': { mutation: { store: neverReclaims }, shows: /has no outcome/ },
  'outcomes without a fence': { mutation: { store: withoutFence }, shows: /outcomes|acted|heard/ },
  'a beginning that is not durable': {
    mutation: { ports: (ports) => ({ ...ports, begin: async () => true }) },
    shows: /\(once\) acted|\(reconcilable\) acted/,
  },
  'an answer before the commit': {
    mutation: { ports: (ports) => ({ ...ports, recorder: { ...ports.recorder, finish: async () => 'accepted' } }) },
    shows: /has no outcome|heard/,
  },
  'a repeat that finds a claim and drops it': {
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
  'a decision that wakes nobody': { mutation: { store: neverResumes }, shows: /has no outcome/ },
  'a call that nobody takes because its first worker had not its tool': {
    mutation: { store: neverOffered },
    shows: /has no outcome/,
  },
  'a worker that takes a call which is asked for one that failed': {
    mutation: {
      ports: (ports) => ({ ...ports, execute: async (...of) => asEnd((await ports.execute(...of)) as Outcome) }),
    },
    shows: /is denied although it is open/,
  },
  'a worker that does not ask': {
    mutation: { ports: (ports) => ({ ...ports, execute: (snapshot, task) => ports.execute(snapshot, unasked(task)) }) },
    shows: /acted without approval/,
  },
  'outcomes that are thrown away while the database is away': {
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
