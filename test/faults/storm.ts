import type { TestContext } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { createRandom } from '../../packages/service/test/simulator/world.ts'
import type { Verdict } from './ledgers.ts'
import { drive, mixed } from './load.ts'
import type { NodeOptions, ServiceNode } from './processes.ts'
import { type Engine, openSite, type Site } from './site.ts'

export interface StormOptions {
  readonly engine: Engine
  readonly workers: number
  readonly calls: number
  /** The least number of kills, as long as calls are open. */
  readonly kills: number
  /** The longest time between the start of a node and its kill. */
  readonly lifeMs: number
  readonly slots: number
  readonly seed: number
  /** Options for a deliberately broken node. */
  readonly node?: Partial<NodeOptions>
}

/** Sends calls of every effect class to processes that are killed repeatedly. */
export async function killStorm(t: TestContext, options: StormOptions): Promise<Verdict> {
  const { engine, workers, calls, kills, lifeMs, slots, seed, node = {} } = options
  t.diagnostic(`seed ${seed}`)
  const random = createRandom(seed)
  const site = await openSite(t, { engine, service: { leaseMs: 4_000, slots, logLevel: 'warn' } })
  await Promise.all(Array.from({ length: workers }, () => site.start(node)))
  const done = new AbortController()
  const load = drive(site, mixed(calls, random, 100), 4 * slots * workers).finally(() => done.abort())
  const began = performance.now()
  const killed = await Promise.race([
    load.then(() => 0),
    killAround(site, { kills, lifeMs, random, done: done.signal, workers }),
  ])
  await load
  const seconds = (performance.now() - began) / 1_000
  const verdict = await site.verdict()
  t.diagnostic(
    `${killed || site.nodes.length - workers} kills in ${seconds.toFixed(1)} s: ${JSON.stringify(verdict.counts)}`,
  )
  return verdict
}

interface Killing {
  readonly kills: number
  readonly lifeMs: number
  readonly random: () => number
  readonly done: AbortSignal
  readonly workers: number
}

/** Kills nodes one after another, some while they start, until the load ends or `kills` is reached. */
async function killAround(site: Site, { kills, lifeMs, random, done, workers }: Killing): Promise<number> {
  let count = 0
  const lane = async (first: ServiceNode): Promise<void> => {
    let node = first
    while (!done.aborted && count < kills) {
      // With several workers each lives longer, so that the rate of kills stays the same.
      await sleep(random() * lifeMs * workers)
      if (done.aborted || count >= kills) return
      count += 1
      await node.kill()
      const starting = site.again(node)
      // A node killed during its start rejects `ready`.
      if (random() < 0.2) starting.catch(() => undefined)
      else await starting
      node = site.nodes.findLast(({ port }) => port === first.port) ?? node
    }
  }
  await Promise.all(site.nodes.slice(0, workers).map(lane))
  return count
}
