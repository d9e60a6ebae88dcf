import { startPostgres } from '../scripts/engines/postgres.ts'
import { type RedisServer, startRedis } from '../scripts/engines/redis.ts'
import { median, quantile } from './measure.ts'
import { queuePeers, queueVersions } from './queue-peers.ts'
import { figure, ratio, type Section } from './report.ts'
import type { DrainFigures, MemoryFigures, ServiceOrder, TimeFigures } from './service-process.ts'
import { alternate, interleave, type Named, type Outcome } from './service-run.ts'

const rounds = 5
const turns = 15

/** A queue on PostgreSQL, a round trip, and the embedded database, compared with other queues. */
export async function service(): Promise<Section> {
  queuePeers.install()
  const postgres = await startPostgres({ settings: { max_connections: 200 } })
  try {
    const tables = [await drains(postgres.url), await roundTrips(postgres.url), await embedded()]
    return { title: 'The service', tables, notes }
  } finally {
    await postgres.stop()
  }
}

/** Up to a million waiting calls: the cost of each, and the memory used meanwhile. */
export async function serviceDepth(): Promise<Section> {
  const postgres = await startPostgres()
  try {
    return {
      title: 'The service with many calls waiting',
      tables: [await depths(postgres.url), await memory(postgres.url)],
      notes: depthNotes,
    }
  } finally {
    await postgres.stop()
  }
}

const notes = [
  `Durable: PostgreSQL with fsync and synchronous commit, as it is installed. The jobs are there before a worker starts; each subject is one process with 24 slots, by turns, ${rounds} rounds; a start and the first tenth of the jobs are not counted. The ratios are medians over the rounds.`,
  'Gantry: `demo:add` through the whole pipeline, with the start and the end on the audit record, the attempt, the fence and a result that stays. graphile-worker runs a function and deletes the job; it keeps no result and no record. Plain is its default; its localQueue is as in its own performance test (size 500, completions batched).',
  'Round trip: 500 calls a second begin at their time, whether or not those before have ended; measured from then until the caller has the outcome. Gantry waits for the disk once, for the call and its outcome together, because the tool only reads and its caller waits; for another tool it would twice. BullMQ: `add` and `waitUntilFinished`. Redis usually writes its log to disk every second, so that no call waits for the disk and a crash can lose a second; the second row has it written before each answer, as ours is. All take turns of two seconds. Each is one process with API and worker, 64 slots; over HTTP the service is another process.',
  'Embedded: PGlite in the process, every commit on disk; 64 callers, each of whom waits for one call after the other.',
]

function medianOf<F>({ figures }: Outcome<F>, read: (one: F) => number): number {
  return median(figures.map(read))
}

/** The median of the ratios of each round: two consecutive runs had the same load on the machine. */
function roundRatio<F>(one: Outcome<F>, other: Outcome<F> | undefined, read: (figures: F) => number): string {
  if (other === undefined) return ''
  const pairs = one.figures.flatMap((mine, round) => {
    const beside = other.figures[round]
    return beside === undefined ? [] : [read(mine) / read(beside)]
  })
  return ratio(median(pairs), 1)
}

async function drains(server: string) {
  const drain = (subject: 'gantry' | 'graphile' | 'graphile local', count: number): ServiceOrder => {
    return { kind: 'drain', url: '', subject, count }
  }
  const version = queueVersions['graphile-worker']
  const found = await interleave<DrainFigures>(
    server,
    [
      { name: `graphile-worker ${version}, plain`, order: drain('graphile', 5_000) },
      { name: `graphile-worker ${version}, localQueue`, order: drain('graphile local', 40_000) },
      { name: '**Gantry**, PostgreSQL', order: drain('gantry', 40_000) },
    ],
    rounds,
  )
  const [plain, local, gantry] = found
  const perSecond = (one: DrainFigures): number => one.perSecond
  const rows = found.map((one) => {
    if (one.failed !== undefined) return [`${one.name}: not measured, ${one.failed}`]
    const compared = one === gantry ? [roundRatio(one, plain, perSecond), '≥ 5×'] : ['', '']
    const batched = one === gantry ? [roundRatio(one, local, perSecond), '≥ 0.5×'] : ['', '']
    return [one.name, figure(medianOf(one, perSecond)), ...compared, ...batched]
  })
  return { head: ['jobs that wait, 24 slots', 'a second', 'to plain', 'target', 'to localQueue', 'target'], rows }
}

async function roundTrips(server: string) {
  const redis = await Promise.all([startRedis(), startRedis({ fsync: 'always' })])
  const [usual, durable] = redis
  const rate = { kind: 'rate', perSecond: 500, seconds: 2, url: '', password: '' } as const
  const bullmq = `BullMQ ${queueVersions.bullmq}, Redis`
  const orders: Named[] = [
    { name: `${bullmq}, fsync every second`, order: { ...rate, subject: 'bullmq', ...addressOf(usual) } },
    { name: `${bullmq}, fsync before each answer`, order: { ...rate, subject: 'bullmq', ...addressOf(durable) } },
    { name: '**Gantry**, PostgreSQL', order: { ...rate, subject: 'gantry' } },
    { name: '**Gantry**, PostgreSQL, over HTTP', order: { ...rate, subject: 'gantry http' } },
  ]
  const found = await alternate(server, orders, turns).finally(() => Promise.all(redis.map((one) => one.stop())))
  const [quick, sure, gantry] = found
  const rows = found.map((one) => {
    if (one.failed !== undefined) return [`${one.name}: not measured, ${one.failed}`]
    const cells = (share: number): string[] => {
      const own = quantile(one.times, share)
      const peers =
        one === gantry ? [quick, sure].map((peer) => ratio(own, quantile(peer?.times ?? [], share))) : ['', '']
      return [figure(own), ...peers]
    }
    return [one.name, ...cells(0.5), ...cells(0.99), one === gantry ? '≤ 1×' : '']
  })
  const compared = ['to BullMQ', 'to it, durable']
  return { head: ['round trip, 500 a second', 'p50 ms', ...compared, 'p99 ms', ...compared, 'target'], rows }
}

function addressOf({ url, password }: RedisServer): { readonly url: string; readonly password: string } {
  return { url, password }
}

async function embedded() {
  const order: ServiceOrder = {
    kind: 'callers',
    subject: 'gantry embedded',
    url: 'embedded:',
    callers: 64,
    seconds: 10,
  }
  const [one] = await interleave<TimeFigures>('', [{ name: '**Gantry**, embedded', order }], 3)
  const head = ['64 callers', 'calls a second', 'target', 'p50 ms', 'p99 ms']
  if (one === undefined || one.failed !== undefined) return { head, rows: [[`not measured, ${one?.failed}`]] }
  const [p50, p99] = [medianOf(one, (f) => f.p50), medianOf(one, (f) => f.p99)]
  return { head, rows: [[one.name, figure(medianOf(one, (f) => f.perSecond)), '≥ 1,000', figure(p50), figure(p99)]] }
}

const sizes = [1_000, 10_000, 100_000, 1_000_000]
const million = 1_000_000

async function depths(server: string) {
  const orders = sizes.map((count): Named => {
    return { name: `${count.toLocaleString('en-US')} waiting`, order: { kind: 'depth', url: '', count } }
  })
  const found = await interleave<DrainFigures>(server, orders, 2)
  const perSecond = (one: DrainFigures): number => one.perSecond
  const [least] = found
  const rows = found.map((one) => {
    if (one.failed !== undefined) return [`${one.name}: not measured, ${one.failed}`]
    const rate = medianOf(one, perSecond)
    const cost = ratio(least === undefined ? Number.NaN : medianOf(least, perSecond), rate)
    return [one.name, figure(rate), figure(1_000_000 / rate), cost]
  })
  return { head: ['calls that wait all the time', 'calls a second', 'µs a call', 'cost to the first'], rows }
}

async function memory(server: string) {
  const order: ServiceOrder = { kind: 'memory', url: '', count: million }
  const [one] = await interleave<MemoryFigures>(server, [{ name: 'a million calls', order }], 1)
  const head = ['calls done of 1,000,000', 'a second', 'heap MiB', 'resident MiB']
  if (one?.failed !== undefined) return { head, rows: [[`not measured, ${one.failed}`]] }
  const rows = (one?.figures[0]?.tenths ?? []).map(({ perSecond, heapBytes, residentBytes }, index) => {
    const done = (((index + 2) * million) / 10).toLocaleString('en-US')
    return [done, ...[perSecond, heapBytes / 2 ** 20, residentBytes / 2 ** 20].map(figure)]
  })
  return { head, rows }
}

const depthNotes = [
  'One worker with 24 slots. Above, calls are added by the same process as others end, so that as many wait all the time; medians of two rounds of 30,000 calls each, of which the first tenth is not counted. Below, a million calls wait at the start and none is added; the heap is measured after a collection.',
]
