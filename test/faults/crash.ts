import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import type { JsonObject } from '@gantry/contract'
import { createRandom } from '../../packages/service/test/simulator/world.ts'
import { type Fault, seed } from './fault.ts'
import { drive, mixed, type Plan, persist, pooled, send } from './load.ts'
import { type ServiceNode, until } from './processes.ts'
import { openSite, type Site } from './site.ts'
import { readLedger } from './tools.ts'

const classes = ['read', 'keyed', 'once', 'reconcilable', 'repeatable']

/** Submits calls to one node. */
export async function handTo(site: Site, node: ServiceNode, plans: readonly Plan[]): Promise<void> {
  await pooled(plans, 8, async ({ id, tool, args = {} }) => {
    const client = site.clientOf(node)
    const { callId } = await persist(() => client.submit(`fault:${tool}`, { id, ...args }, { idempotencyKey: id }))
    site.ledgers.requests.push({ id, tool, callId })
  })
}

export function plansOf(prefix: string, args: JsonObject, tools = classes): Plan[] {
  return tools.map((tool) => ({ id: `${prefix}-${tool}`, tool, args }))
}

const acted = (site: Site, prefix: string): number =>
  new Set(readLedger(`${site.folder}/ledger`).flatMap(({ id }) => (id.startsWith(`${prefix}-`) ? [id] : []))).size

/** The stages of a call at which its worker is killed. */
const stages: readonly {
  readonly name: string
  readonly args: JsonObject
  reached(site: Site, prefix: string): Promise<unknown>
}[] = [
  { name: 'before the effect', args: { beforeMs: 700 }, reached: () => sleep(50) },
  {
    name: 'after the effect',
    args: { afterMs: 700 },
    reached: (site, prefix) => until(() => acted(site, prefix) === classes.length),
  },
  {
    name: 'after the outcome',
    args: {},
    reached: (site, prefix) => pooled(plansOf(prefix, {}), 5, (plan) => send(site, plan)),
  },
]

const killed: Fault = {
  number: 1,
  name: 'no call is lost when its worker is killed before the effect, after the effect or after the outcome',
  async run(t, size) {
    const site = await openSite(t, { engine: 'postgres', service: { leaseMs: 1_000, maxDeaths: 3 } })
    let [victim] = await Promise.all([site.start(), site.start()])
    for (let round = 0; round < (size === 'quick' ? 1 : 6); round++) {
      for (const [n, { name, args, reached }] of stages.entries()) {
        const prefix = `r${round}s${n}`
        if (!victim.alive) victim = await site.again(victim)
        await handTo(site, victim, plansOf(prefix, args))
        assert.notEqual(await reached(site, prefix), false, `the calls never got to where they are killed: ${name}`)
        await victim.kill()
        await pooled(plansOf(prefix, args), 5, (plan) => send(site, plan))
      }
    }
    const { counts } = await site.sound('killed')
    assert.ok(counts.attemptsLost > 0 && counts.unknown > 0, JSON.stringify(counts))
    assert.equal(counts.reconciledTwice, 0)
  },
}

const paused: Fault = {
  number: 2,
  name: 'the fence rejects outcomes of a worker that was stopped for twice its lease',
  async run(t, size) {
    const site = await openSite(t, { engine: 'postgres', service: { leaseMs: 1_000, maxDeaths: 20 } })
    const [sleeper] = await Promise.all([site.start(), site.start()])
    let late = 0
    for (let round = 0; round < (size === 'quick' ? 1 : 8); round++) {
      const plans = plansOf(`r${round}`, { afterMs: 1_000 })
      await handTo(site, sleeper, plans)
      await until(() => acted(site, `r${round}`) === plans.length)
      sleeper.signal('SIGSTOP')
      await sleep(2_500)
      sleeper.signal('SIGCONT')
      await pooled(plans, 5, (plan) => send(site, plan))
      const figures = await Promise.all(['gantry_fence_rejections_total', 'gantry_leases_lost_total'].map(site.metric))
      late = figures[0] ?? 0
      t.diagnostic(`round ${round}: ${figures[0]} refused by their fence, ${figures[1]} leases lost`)
    }
    assert.ok(late > 0, 'no outcome came too late, so that nothing was shown')
    await site.sound('paused')
  },
}

const blocked: Fault = {
  number: 3,
  name: 'a tool that blocks the event loop for longer than the lease loses neither its lease nor those of other calls',
  async run(t, size) {
    const site = await openSite(t, { engine: 'postgres', service: { leaseMs: 1_000 } })
    const [busy, other] = await Promise.all([site.start(), site.start()])
    for (let round = 0; round < (size === 'quick' ? 1 : 4); round++) {
      const beside = plansOf(`b${round}`, { afterMs: 2_000 })
      const blocking: Plan = { id: `block${round}`, tool: 'once', args: { then: 'block', afterMs: 3_000 } }
      await handTo(site, busy, beside)
      await until(() => acted(site, `b${round}`) === beside.length)
      await handTo(site, busy, [blocking])
      await pooled([...beside, blocking], 10, (plan) => send(site, plan))
    }
    assert.equal(await site.metric('gantry_lease_takeovers_total'), 0, other.said)
    const { counts } = await site.sound('blocked')
    assert.deepEqual([counts.attemptsLost, counts.repeated, counts.ok], [0, 0, counts.requests])
  },
}

const drained: Fault = {
  number: 30,
  name: 'a worker that gets SIGTERM releases its calls at once and exits with 0; a second signal forces it',
  async run(t, size) {
    const site = await openSite(t, { engine: 'postgres', service: { leaseMs: 30_000, slots: 8 } })
    const [stopping] = await Promise.all([site.start(), site.start()])
    const random = createRandom(seed)
    const load = drive(site, mixed(size === 'quick' ? 60 : 600, random, 200), 30)
    let node = stopping
    for (let round = 0; round < (size === 'quick' ? 1 : 10); round++) {
      await sleep(300)
      assert.equal(await node.stop(), 0, node.said)
      node = await site.again(node)
    }
    await load
    const { counts } = await site.sound('drained')
    // Leases last 30 s, so that other workers can only have claimed released calls.
    assert.deepEqual([counts.attemptsLost, counts.unknown, counts.ok], [0, 0, counts.requests])
    const stubborn = await site.again(node)
    await handTo(site, stubborn, [{ id: 'forced-1', tool: 'read', args: { afterMs: 60_000 } }])
    await until(() => acted(site, 'forced') > 0)
    stubborn.signal('SIGTERM')
    // Signals in quick succession count as one.
    await sleep(300)
    stubborn.signal('SIGTERM')
    assert.equal((await stubborn.ended).code, 130)
  },
}

export const crashFaults: readonly Fault[] = [killed, paused, blocked, drained]
