import type { TestContext } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { openPostgres } from '../../packages/service/src/storage/databases/postgres.ts'
import { createRandom } from '../../packages/service/test/simulator/world.ts'
import { driveGate, type Gate } from './brokers-gates.ts'
import { type BrokerKind, openBrokerSite, type Place, placeOf } from './brokers-places.ts'
import type { Verdict } from './ledgers.ts'
import { mixed } from './load.ts'
import type { ServiceNode } from './processes.ts'
import type { Site } from './site.ts'

export interface BrokerStormOptions {
  readonly kind: BrokerKind
  readonly workers: number
  readonly calls: number
  /** The least number of kills. */
  readonly kills: number
  /** The longest time between the start of a node and its kill. */
  readonly lifeMs: number
  readonly slots: number
  readonly seed: number
  /** The number of kills of the broker. */
  readonly brokerKills?: number
  /** The interval at which one more worker starts or stops; none by default. */
  readonly rebalanceMs?: number
}

/** Sends calls of every effect class over a broker to workers that are killed repeatedly. */
export async function brokerStorm(t: TestContext, options: BrokerStormOptions): Promise<Verdict> {
  const { kind, workers, calls, kills, lifeMs, slots, seed, brokerKills = 0, rebalanceMs } = options
  t.diagnostic(`seed ${seed}`)
  const random = createRandom(seed)
  const place = await placeOf(kind)
  const service = { leaseMs: 4_000, slots, logLevel: 'warn', maxDeaths: 20 }
  const site = await openBrokerSite(t, [place], { service })
  await Promise.all(Array.from({ length: workers }, () => site.start()))
  const gate = await place.open(site)
  t.after(() => gate.close())
  const done = new AbortController()
  const began = performance.now()
  const load = drivePaced(gate, options, random)
    .catch(async (error: Error) => {
      throw new Error(`${error.message}; ${await whereabouts(site)}`)
    })
    .finally(() => done.abort())
  const counts = { kills: 0, broker: 0, rebalances: 0 }
  await Promise.all([
    load,
    ...site.nodes.map((node) => killAgain(site, node, { kills, lifeMs, random, done: done.signal, counts })),
    killBroker(place, brokerKills, random, done.signal, counts),
    ...(rebalanceMs === undefined ? [] : [comeAndGo(site, rebalanceMs, done.signal, counts)]),
  ])
  const seconds = ((performance.now() - began) / 1_000).toFixed(1)
  const verdict = await site.verdict()
  t.diagnostic(`${calls} calls in ${seconds} s, ${JSON.stringify(counts)} killed: ${JSON.stringify(verdict.counts)}`)
  return verdict
}

/** Keeps more calls open than the workers have slots. */
async function drivePaced(gate: Gate, { calls, slots, workers }: BrokerStormOptions, random: () => number) {
  await driveGate(gate, mixed(calls, random, 100), 4 * slots * workers)
}

/** The rows of the calls without a reply, for the error message. */
async function whereabouts(site: Site): Promise<string> {
  const database = await openPostgres({ url: site.url ?? '', connections: 1 })
  const answered = new Set(site.ledgers.replies.map(({ id }) => id))
  const open = site.ledgers.requests.map(({ id }) => id).filter((id) => !answered.has(id))
  const rows = await database.query(
    `select c.idem_key, q.lease_until, q.fence, q.run_at, r.status, o.tries, o.next_at, o.lease_until as outbox_lease,
       o.sent_at, o.last_error
     from calls c left join queue q using (call_id) left join results r using (call_id) left join outbox o using (call_id)
     where split_part(c.idem_key, '/', -1) = any ($1) order by c.idem_key`,
    [open],
  )
  await database.close()
  const living = site.nodes.filter(({ alive }) => alive).length
  return `${open.length} open, ${living} nodes live, ${rows.length} kept: ${JSON.stringify(rows.slice(0, 5))}`
}

interface Killing {
  readonly kills: number
  readonly lifeMs: number
  readonly random: () => number
  readonly done: AbortSignal
  readonly counts: { kills: number; broker: number; rebalances: number }
}

/** Kills a node and its successors, some while they start, until the load ends or `kills` is reached. */
async function killAgain(site: Site, first: ServiceNode, { kills, lifeMs, random, done, counts }: Killing) {
  let node = first
  while (!done.aborted && counts.kills < kills) {
    await rest(random() * lifeMs, done)
    if (done.aborted || counts.kills >= kills) break
    counts.kills += 1
    await node.kill()
    node = await startAgain(site, node, random() < 0.2)
  }
  // A node that was not awaited may have failed to start because the broker was down.
  await node.ready.catch(() => (done.aborted ? undefined : startAgain(site, node)))
}

/** Restarts a node until it is ready, as a supervisor does: it exits while its broker is unavailable. */
async function startAgain(site: Site, gone: ServiceNode, impatient = false): Promise<ServiceNode> {
  for (;;) {
    const starting = site.again(gone)
    const node = site.nodes.findLast(({ port }) => port === gone.port) ?? gone
    const isUp = await Promise.race([starting.then(() => true).catch(() => false), ...(impatient ? [rest(100)] : [])])
    if (isUp !== false) return node
    await rest(100)
  }
}

async function killBroker(
  { server }: Place,
  times: number,
  random: () => number,
  done: AbortSignal,
  counts: Killing['counts'],
): Promise<void> {
  while (counts.broker < times) {
    await rest(1_000 + random() * 2_000, done)
    if (done.aborted) return
    counts.broker += 1
    server.kill()
    await rest(random() * 1_000)
    await server.restart()
  }
}

/** Starts and stops an extra worker, so that partitions are rebalanced each time. */
async function comeAndGo(site: Site, everyMs: number, done: AbortSignal, counts: Killing['counts']): Promise<void> {
  while (!done.aborted) {
    const guest = await site.start()
    counts.rebalances += 1
    await rest(everyMs, done)
    await guest.stop()
    counts.rebalances += 1
    await rest(everyMs, done)
  }
}

/** Resolves with true after the time, or earlier when `done` aborts. */
async function rest(ms: number, done?: AbortSignal): Promise<true> {
  await sleep(ms, undefined, done === undefined ? {} : { signal: done }).catch(() => undefined)
  return true
}
