import assert from 'node:assert/strict'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Result, ToolError } from '@gantry/contract'
import { createRandom } from '../../packages/service/test/simulator/world.ts'
import { handTo, plansOf } from './crash.ts'
import { type Fault, seed } from './fault.ts'
import { drive, hear, mixed, type Plan, persist, pooled, send } from './load.ts'
import { until } from './processes.ts'
import { openSite, type Site } from './site.ts'
import { readLedger } from './tools.ts'

const repeated: Fault = {
  number: 14,
  name: 'five concurrent calls under one idempotency key on two nodes run once, and other arguments under it are a conflict',
  async run(t, size) {
    const site = await openSite(t, { engine: 'postgres' })
    await Promise.all([site.start(), site.start()])
    const plans = mixed(size === 'quick' ? 24 : 300, createRandom(seed), 50)
    await pooled(plans, 6, async (plan) => {
      const results = await Promise.all(Array.from({ length: 5 }, () => send(site, plan)))
      for (const result of results) assert.deepEqual(result, results[0])
      const other = site.client.call(`fault:${plan.tool}`, { id: plan.id, note: 'other' }, { idempotencyKey: plan.id })
      await assert.rejects(other, { code: 'IDEMPOTENCY_CONFLICT' })
    })
    const { counts } = await site.sound('repeated')
    assert.deepEqual([counts.ok, counts.effects], [plans.length, plans.length])
  },
}

const ordered: Fault = {
  number: 15,
  name: 'calls of a concurrency key with one slot run one at a time in the order of submission, on any worker',
  async run(t, size) {
    const site = await openSite(t, { engine: 'postgres' })
    const nodes = await Promise.all([site.start(), site.start()])
    const random = createRandom(seed)
    const plans: Plan[] = Array.from({ length: size === 'quick' ? 20 : 300 }, (_, n) => ({
      id: `o${n}`,
      tool: 'alone',
      args: { afterMs: Math.floor(random() * 30) },
    }))
    const free = drive(site, mixed(size === 'quick' ? 20 : 300, random, 30, 'free').filter(notAlone), 10)
    for (const [n, plan] of plans.entries()) await handTo(site, nodes[n % 2] ?? nodes[0], [plan])
    await pooled(plans, 20, (plan) => send(site, plan))
    await free
    const entered = readLedger(join(site.folder, 'ledger')).filter(({ what }) => what === 'enter')
    assert.deepEqual(
      entered.map(({ id }) => id),
      plans.map(({ id }) => id),
    )
    const byNode = new Set(entered.map(({ pid }) => pid)).size
    t.diagnostic(`${entered.length} in order, run by ${byNode} nodes`)
    await site.sound('ordered')
  },
}

const notAlone = ({ tool }: Plan): boolean => tool !== 'alone'

const skewed: Fault = {
  number: 16,
  name: 'workers whose clocks differ by ten minutes lose no lease to each other',
  async run(t, size) {
    const site = await openSite(t, { engine: 'postgres', service: { leaseMs: 2_000 } })
    const flags = ['--import', join(import.meta.dirname, 'skew.ts')]
    const nodes = await Promise.all(
      [300_000, -300_000].map(async (skewMs) => {
        const node = await site.start({ flags, environment: { FAULT_SKEW_MS: String(skewMs) } })
        const logged = Date.parse(/"time":"([^"]+)"/.exec(node.said)?.[1] ?? '')
        assert.ok(Math.abs(logged - Date.now() - skewMs) < 60_000, `its clock is not wrong: ${node.said}`)
        return node
      }),
    )
    const long = nodes.map((node, n) => ({ node, plans: plansOf(`n${n}`, { afterMs: 3_000 }) }))
    await Promise.all(long.map(({ node, plans }) => handTo(site, node, plans)))
    const delayed: Plan = { id: 'delayed', tool: 'read', options: { delayMs: 500 } }
    await drive(site, [delayed, ...mixed(size === 'quick' ? 20 : 300, createRandom(seed), 100)], 10)
    await pooled(
      long.flatMap(({ plans }) => plans),
      10,
      (plan) => send(site, plan),
    )
    const { counts } = await site.sound('clocks that are wrong')
    assert.deepEqual([counts.attemptsLost, counts.repeated, counts.ok], [0, 0, counts.requests])
  },
}

/** Moments at which a call is cancelled, and the outcomes it may have. */
const moments: {
  readonly [name: string]: {
    readonly plan: Partial<Plan>
    readonly may: string[]
    /** Resolves at the moment; false if it never came. */
    reached?(site: Site, id: string, callId: string): Promise<unknown>
  }
} = {
  delayed: { plan: { options: { delayMs: 60_000 } }, may: ['cancelled'] },
  'at once': { plan: {}, may: ['cancelled', 'ok'] },
  'before its effect': {
    plan: { args: { beforeMs: 60_000 } },
    may: ['cancelled'],
    reached: (site, _id, callId) => until(async () => (await site.client.get(callId)).state === 'running'),
  },
  'after its effect': {
    plan: { args: { afterMs: 60_000 } },
    may: ['cancelled', 'unknown'],
    reached: (site, id) => until(() => readLedger(join(site.folder, 'ledger')).some((line) => line.id === id)),
  },
  'as it ends': { plan: { args: { afterMs: 60 } }, may: ['cancelled', 'ok', 'unknown'], reached: () => sleep(40) },
  'when it has ended': { plan: {}, may: ['ok'], reached: (site, _id, callId) => outcomeOf(site, callId) },
}

const cancelled: Fault = {
  number: 37,
  name: 'a call cancelled at any stage, by two nodes at once, has one outcome',
  async run(t, size) {
    const site = await openSite(t, { engine: 'postgres', service: { slots: 64 } })
    const [one, other] = await Promise.all([site.start(), site.start()])
    const blocker: Plan = { id: 'blocker', tool: 'alone', args: { afterMs: size === 'quick' ? 2_000 : 10_000 } }
    await handTo(site, one, [blocker])
    const behind = Array.from({ length: 4 }, (_, n) => ({ id: `behind${n}`, tool: 'alone' }))
    const tries = Object.entries(moments).flatMap(([name, { plan, may, reached }], kind) =>
      Array.from({ length: size === 'quick' ? 2 : 12 }, (_, round) =>
        ['read', 'keyed', 'once', 'reconcilable', 'repeatable'].map((tool) => ({
          name,
          may,
          reached,
          plan: { id: `m${kind}-${round}-${tool}`, tool, ...plan } as Plan,
        })),
      ).flat(),
    )
    const queued = behind.map((plan) => ({ name: 'queued', plan, may: ['cancelled'], reached: undefined }))
    const ends = await pooled([...queued, ...tries], 12, async ({ name, plan, may, reached }) => {
      const { id, tool, args = {}, options = {} } = plan as Plan
      const accepted = await site
        .clientOf(one)
        .submit(`fault:${tool}`, { id, ...args }, { ...options, idempotencyKey: id })
      const { callId } = accepted
      site.ledgers.requests.push({ id, tool, callId })
      assert.notEqual(
        await reached?.(site, id, callId),
        false,
        `${id} was not cancelled ${name}: the moment never came`,
      )
      await Promise.all([one, other].map((node) => site.clientOf(node).cancel(callId)))
      const result = await outcomeOf(site, callId)
      hear(site, id, result)
      assert.ok(may.includes(result.status), `${id} was cancelled ${name} and ended as ${result.status}`)
      return `${name}: ${result.status}`
    })
    await send(site, blocker)
    const counted = Object.fromEntries([...Map.groupBy(ends, (end) => end)].map(([end, list]) => [end, list.length]))
    t.diagnostic(JSON.stringify(counted))
    await site.sound('cancelled', 0.2)
  },
}

async function outcomeOf(site: Site, callId: string): Promise<Result> {
  let result: Result | undefined
  const ended = await until(async () => {
    result = (await persist(() => site.client.get(callId))).result as Result | undefined
    return result !== undefined
  })
  if (!ended || result === undefined) throw new ToolError('INTERNAL', `${callId} has no end.`)
  return result
}

export const keyFaults: readonly Fault[] = [repeated, ordered, skewed, cancelled]
