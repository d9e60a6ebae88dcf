import assert from 'node:assert/strict'
import { openPostgres } from '../../packages/service/src/storage/databases/postgres.ts'
import { createRandom } from '../../packages/service/test/simulator/world.ts'
import { handTo } from './crash.ts'
import { type Fault, seed } from './fault.ts'
import { drive, mixed, type Plan, persist, send } from './load.ts'
import type { NodeOptions, ServiceNode } from './processes.ts'
import { openSite, type Site } from './site.ts'

/** Restarts a node whenever it dies, as a supervisor does; the returned function ends this and returns the deaths. */
function keepAlive(site: Site, first: ServiceNode): () => number {
  let stopped = false
  let deaths = 0
  const watch = async (node: ServiceNode): Promise<void> => {
    await node.ended
    if (stopped) return
    deaths += 1
    // A node that dies while it starts is restarted too.
    await site.again(node).catch(() => undefined)
    const next = site.nodes.findLast(({ port }) => port === first.port)
    if (next !== undefined) await watch(next)
  }
  void watch(first)
  return () => {
    stopped = true
    return deaths
  }
}

/** A call that kills every worker that runs it becomes a dead letter, and the others complete. */
async function survive(site: Site, poison: Plan, calls: number, options: Partial<NodeOptions> = {}): Promise<number> {
  const nodes = await Promise.all([site.start(options), site.start(options)])
  const ends = nodes.map((node) => keepAlive(site, node))
  await handTo(site, nodes[0], [poison])
  await drive(site, mixed(calls, createRandom(seed), 100), 8)
  const { status, error } = await send(site, poison)
  assert.deepEqual([status, error?.code], ['failed', 'DELIVERY_EXHAUSTED'])
  const deadLetters = await persist(() => site.client.deadLetters.list())
  assert.deepEqual(
    deadLetters.items.map(({ code, tool }) => [code, tool]),
    [['DELIVERY_EXHAUSTED', 'fault:keyed:1.0.0']],
  )
  return ends.reduce((sum, end) => sum + end(), 0)
}

const poison: Fault = {
  number: 13,
  name: 'a call that kills its worker each time, or whose payload is corrupt, becomes a dead letter; other calls complete',
  async run(t, size) {
    const site = await openSite(t, { engine: 'postgres', service: { leaseMs: 1_500, maxDeaths: 3 } })
    const deaths = await survive(
      site,
      { id: 'poison', tool: 'keyed', args: { then: 'die' } },
      size === 'quick' ? 30 : 300,
    )
    assert.equal(deaths, 3)
    await spoil(t, site)
    const { counts } = await site.sound('poisoned')
    t.diagnostic(`${deaths} workers died: ${JSON.stringify(counts)}`)
  },
}

/** Submits a call and corrupts its payload while it waits. */
async function spoil(t: Parameters<Fault['run']>[0], site: Site): Promise<void> {
  const database = await openPostgres({ url: site.url ?? '', connections: 1 })
  t.after(() => database.close())
  const plan: Plan = { id: 'spoilt', tool: 'once' }
  const how = { delayMs: 1_000, idempotencyKey: 'spoilt' }
  const { callId } = await persist(() => site.client.submit('fault:once', { id: 'spoilt' }, how))
  site.ledgers.requests.push({ id: 'spoilt', tool: 'once', callId })
  await database.query(`update calls set payload = '{"id": ' where call_id = $1`, [callId])
  const { status, error } = await send(site, plan)
  assert.deepEqual([status, error?.effect], ['failed', 'none'])
  const [letter] = (await persist(() => site.client.deadLetters.list())).items
  assert.equal(letter?.callId, callId)
}

const outOfMemory: Fault = {
  number: 23,
  name: 'a worker that runs out of memory loses no other call, and the call that caused it becomes a dead letter',
  async run(t, size) {
    const site = await openSite(t, { engine: 'postgres', service: { leaseMs: 1_500, maxDeaths: 1 } })
    const flags = ['--max-old-space-size=160']
    const hog: Plan = { id: 'hog', tool: 'keyed', args: { then: 'hog' } }
    const deaths = await survive(site, hog, size === 'quick' ? 20 : 300, { flags })
    assert.equal(deaths, 1)
    await site.sound('out of memory')
  },
}

export const poisonFaults: readonly Fault[] = [poison, outOfMemory]
