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
  /** So many at least, one after the other as long as there is work. */
  readonly kills: number
  /** The longest time that a node lives once it takes calls. */
  readonly lifeMs: number
  readonly slots: number
  readonly seed: number
  /** For a node that is broken on purpose. */
  readonly node?: Partial<NodeOptions>
}

/** Calls of every class, in processes that are killed with no warning again and again. */
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

/** Kills one node after the other, some while they start, until there is no work or it was often enough. */
async function killAround(site: Site, { kills, lifeMs, random, done, workers }: Killing): Promise<number> {
  let count = 0
  const lane = async (first: ServiceNode): Promise<void> => {
    let node = first
    while (!done.aborted && count < kills) {
      // With several workers each lives longer, so that together they die about as often as one.
      await sleep(random() * lifeMs * workers)
      if (done.aborted || count >= kills) return
      count += 1
      await node.kill()
      const starting = site.again(node)
      // One that is killed while it starts says so by ending.
      if (random() < 0.2) starting.catch(() => undefined)
      else await starting
      node = site.nodes.findLast(({ port }) => port === first.port) ?? node
    }
  }
  await Promise.all(site.nodes.slice(0, workers).map(lane))
  return count
}
