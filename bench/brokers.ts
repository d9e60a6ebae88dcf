import { type KafkaServer, startKafka } from '../scripts/engines/kafka.ts'
import { startPostgres } from '../scripts/engines/postgres.ts'
import { type RedisServer, startRedis } from '../scripts/engines/redis.ts'
import { type BrokerBacklog, drain } from './broker-drain.ts'
import { echoBacklog, kafkaBacklog, type Language, native, partitions, somastack } from './broker-kafka.ts'
import {
  bullmqBacklog,
  catalogHash,
  disconnect,
  nativeBacklog,
  nativeCaller,
  redisWorkers,
  stargazerBacklog,
  stargazerCaller,
} from './broker-redis.ts'
import { bullmqWorkers, slots, type Workers } from './broker-workers.ts'
import { median, quantile } from './measure.ts'
import { progress } from './progress.ts'
import { bullmqQueue, type Caller, queuePeers, queueVersions } from './queue-peers.ts'
import { callAtRate } from './rate.ts'
import { figure, ratio, type Section, type Table } from './report.ts'
import { createDatabase } from './service-run.ts'

const rounds = 5
const calls = 20_000
/** The first calls, which include the start and are not counted. */
const warm = 3_000
const turns = 12
const rate = { perSecond: 500, seconds: 2 }
const processes = [1, 2, 4]
const scalingRounds = 3
const bullmq = `BullMQ ${queueVersions.bullmq}`

/** Calls over brokers, compared with other queues. */
export async function brokers(): Promise<Section> {
  queuePeers.install()
  const postgres = await startPostgres({ settings: { max_connections: 200 } })
  try {
    const tables = [
      ...(await withServer(startRedis, (redis) => overRedis(postgres.url, redis))),
      ...(await withServer(startKafka, (kafka) => overKafka(postgres.url, kafka))),
    ]
    return { title: 'The brokers', tables, notes }
  } finally {
    await postgres.stop()
  }
}

const notes = [
  `Messages that wait: they are in the broker before a worker starts, and are counted as they are answered, by looking at the broker every 10 ms; a start and the first ${warm.toLocaleString('en-US')} are not counted. By turns, ${rounds} rounds of ${calls.toLocaleString('en-US')}, each with a new process and a new database; the ratios are medians over the rounds. Gantry is \`gantry serve\` with the roles worker and relay, one process, ${slots} slots: each message becomes a call in PostgreSQL (fsync, synchronous commit) with its attempt, its audit and its outcome, and is answered over the broker after that is on disk.`,
  `BullMQ: \`addBulk\`, then a worker with concurrency ${slots} that returns the sum; it keeps the outcome in Redis and sends no reply. Its Redis is as ours: its log is on disk after a second, so that a crash can lose that much; with the second BullMQ it is before each answer, as what Gantry keeps is in PostgreSQL.`,
  `Kafka: one broker, ${partitions} partitions, idempotent producer, all acknowledged, offsets remembered. The ceiling is its client alone in one process, which reads the same messages and answers each with as many bytes, and does nothing in between; three times as many, because they are gone so soon.`,
  `Round trip: ${rate.perSecond} calls a second begin at their time, measured from then until the caller has the outcome; turns of two seconds, ${turns} each. Worker and caller are two processes, with BullMQ as with us. Gantry waits for the disk twice, for the call and for its outcome; with the second BullMQ the log of Redis is on disk before each answer.`,
  'Scaling: so many processes of the service on one PostgreSQL and one Redis, all on this machine; where they have no cores of their own they can only share.',
]

interface Subject {
  readonly name: string
  readonly backlog: BrokerBacklog
  /** The number of messages if not `calls`; higher for fast subjects. */
  readonly count?: number
}

interface Drained {
  readonly name: string
  /** Outcomes per second in each round. */
  readonly figures: readonly number[]
  readonly failed: string | undefined
}

/** Runs the subjects one after the other in rounds, so that a busy moment of the machine affects all of them. */
async function drains(server: string, subjects: readonly Subject[], times: number): Promise<readonly Drained[]> {
  const found = subjects.map(({ name }) => ({ name, figures: [] as number[], failed: undefined as string | undefined }))
  for (let round = 0; round < times; round += 1) {
    for (const [index, { name, backlog, count = calls }] of subjects.entries()) {
      const one = found[index]
      if (one === undefined || one.failed !== undefined) continue
      progress(`brokers: ${name.replaceAll('*', '')}, round ${round + 1} of ${times}`)
      try {
        one.figures.push(await drain(backlog, server, count, warm))
      } catch (error) {
        one.failed = error instanceof Error ? error.message : String(error)
      }
    }
  }
  return found
}

/** The median of the ratios of each round: two consecutive runs had the same load on the machine. */
function roundRatio(one: Drained, other: Drained | undefined): string {
  return ratio(median(one.figures.map((mine, round) => mine / (other?.figures[round] ?? Number.NaN))), 1)
}

function rowOf(one: Drained, ...cells: readonly string[]): readonly string[] {
  return one.failed === undefined
    ? [one.name, figure(median(one.figures)), ...cells]
    : [`${one.name}: not measured, ${one.failed}`]
}

async function overRedis(server: string, redis: RedisServer): Promise<readonly Table[]> {
  try {
    return [await redisBacklogs(server, redis), await roundTrips(server, redis), await scaling(server, redis)]
  } finally {
    disconnect(redis)
  }
}

async function redisBacklogs(server: string, redis: RedisServer): Promise<Table> {
  const hash = await withDatabase(server, (url) => catalogHash(redis, url))
  const found = await withServer(
    () => startRedis({ fsync: 'always' }),
    (durable) =>
      drains(
        server,
        [
          { name: `${bullmq}, fsync every second`, backlog: bullmqBacklog(redis) },
          { name: `${bullmq}, fsync before each answer`, backlog: bullmqBacklog(durable) },
          { name: '**Gantry**, native messages', backlog: nativeBacklog(redis) },
          { name: '**Gantry**, Stargazer envelopes', backlog: stargazerBacklog(redis, hash) },
        ],
        rounds,
      ).finally(() => disconnect(durable)),
  )
  const [peer, durable] = found
  const rows = found.map((one, index) =>
    rowOf(one, ...(index < 2 ? [] : [roundRatio(one, peer), '≥ 1.25×', roundRatio(one, durable)])),
  )
  const head = [`messages that wait in Redis, ${slots} slots`, 'a second', 'to BullMQ', 'target', 'to it, durable']
  return { head, rows }
}

async function overKafka(server: string, kafka: KafkaServer): Promise<readonly Table[]> {
  const both = (name: string, language: Language): readonly Subject[] => {
    const own = kafkaBacklog(kafka, language)
    const ceiling = echoBacklog(kafka, language, () => own.answerBytes)
    return [
      { name: `**Gantry**, ${name}`, backlog: own },
      { name: `Kafka's client alone, ${name}`, backlog: ceiling, count: 3 * calls },
    ]
  }
  const subjects = [...both('native messages', native), ...both('SomaStack events', somastack)]
  const found = await drains(server, subjects, rounds)
  const rows = found.map((one, index) =>
    rowOf(one, ...(index % 2 === 1 ? [] : ['≥ 10,000', roundRatio(one, found[index + 1]), '≥ 0.3×'])),
  )
  return [{ head: ['messages that wait in Kafka', 'a second', 'target', 'to the client alone', 'target'], rows }]
}

/** A process that works, and one that calls it and waits. */
interface Line {
  readonly name: string
  readonly caller: Caller
  readonly times: number[]
}

async function roundTrips(server: string, redis: RedisServer): Promise<Table> {
  return withServer(
    () => startRedis({ fsync: 'always' }),
    (durable) =>
      withDatabase(server, (url) =>
        withWorkers([bullmqWorkers(redis), bullmqWorkers(durable), redisWorkers(redis, url)], async () => {
          const lines: readonly Line[] = [
            { name: `${bullmq}, fsync every second`, caller: await bullmqQueue(redis), times: [] },
            { name: `${bullmq}, fsync before each answer`, caller: await bullmqQueue(durable), times: [] },
            { name: '**Gantry**, native messages', caller: await nativeCaller(redis), times: [] },
            { name: '**Gantry**, Stargazer envelopes', caller: await stargazerCaller(redis), times: [] },
          ]
          await takeTurns(lines)
          return tripTable(lines)
        }),
      ),
  )
}

async function takeTurns(lines: readonly Line[]): Promise<void> {
  try {
    // The first turn warms up.
    for (let turn = 0; turn <= turns; turn += 1) {
      progress(`brokers: round trips, turn ${turn} of ${turns}`)
      for (const { caller, times } of lines) {
        const found = await callAtRate(caller.call, rate)
        if (turn > 0) times.push(...found)
      }
    }
  } finally {
    for (const { caller } of lines) await caller.close()
  }
}

function tripTable(lines: readonly Line[]): Table {
  const peers = lines.slice(0, 2)
  const rows = lines.map(({ name, times }, index) => {
    const isOurs = index >= peers.length
    const cells = [0.5, 0.99].flatMap((share) => {
      const own = quantile(times, share)
      return [figure(own), ...peers.map((peer) => (isOurs ? ratio(own, quantile(peer.times, share)) : ''))]
    })
    return [name, ...cells, isOurs ? '≤ 1×' : '']
  })
  const compared = ['to BullMQ', 'to it, durable']
  return { head: ['round trip, 500 a second', 'p50 ms', ...compared, 'p99 ms', ...compared, 'target'], rows }
}

async function scaling(server: string, redis: RedisServer): Promise<Table> {
  const subjects = processes.map((count) => ({
    name: count === 1 ? '1 process' : `${count} processes`,
    backlog: nativeBacklog(redis, count),
  }))
  const found = await drains(server, subjects, scalingRounds)
  const [alone] = found
  const rows = found.map((one) => rowOf(one, one === alone ? '' : roundRatio(one, alone)))
  return { head: ['**Gantry**, messages that wait in Redis', 'a second', 'to one'], rows }
}

async function withServer<S extends { stop(): Promise<void> }, T>(
  start: () => Promise<S>,
  work: (server: S) => Promise<T>,
): Promise<T> {
  const server = await start()
  return work(server).finally(() => server.stop())
}

async function withDatabase<T>(server: string, work: (url: string) => Promise<T>): Promise<T> {
  const database = await createDatabase(server)
  return work(database.url).finally(() => database.drop())
}

async function withWorkers<T>(starting: readonly Promise<Workers>[], work: () => Promise<T>): Promise<T> {
  const started = await Promise.all(starting)
  return work().finally(() => Promise.all(started.map((one) => one.stop())))
}
