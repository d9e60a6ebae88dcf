import { peerFolder } from './peer-folder.ts'

/** Exact versions, so that two runs compare like with like. */
export const queueVersions = { 'graphile-worker': '0.18.0', pg: '8.23.1', bullmq: '6.7.0', ioredis: '6.0.0' } as const

/** Queues that the service is compared with; installed for the measurement. */
export const queuePeers = peerFolder(queueVersions, 30)

/** The parts of graphile-worker that are used here. */
interface Graphile {
  readonly Logger: new (factory: () => () => void) => unknown
  readonly makeWorkerUtils: (options: object) => Promise<{
    migrate(): Promise<void>
    withPgClient<T>(
      work: (client: { query(sql: string, values: readonly unknown[]): Promise<T> }) => Promise<T>,
    ): Promise<T>
    release(): Promise<void>
  }>
  readonly runOnce: (options: object, tasks: { readonly [name: string]: (payload: never) => unknown }) => Promise<void>
}

/** A queue in which jobs wait before a worker starts. */
export interface Backlog {
  add(count: number): Promise<void>
  /** Works until the queue is empty. `done` is called for each job: when it ran here, when its outcome is durable for Gantry. */
  drain(count: number, done: (count: number) => void): Promise<void>
  close(): Promise<void>
}

/** graphile-worker as its own performance test runs it, with or without its local queue, in one process. */
export async function graphileBacklog(url: string, concurrency: number, local: boolean): Promise<Backlog> {
  const { Logger, makeWorkerUtils, runOnce } = await queuePeers.load<Graphile>('graphile-worker')
  const batching = {
    localQueue: { size: 500, refetchDelay: { durationMs: 10 } },
    completeJobBatchDelay: 0,
    failJobBatchDelay: 0,
  }
  const worker = {
    connectionString: url,
    concurrentJobs: concurrency,
    maxPoolSize: concurrency + 1,
    logger: new Logger(() => () => {}),
    ...(local ? batching : {}),
  }
  const options = { preset: { worker }, noHandleSignals: true }
  const utils = await makeWorkerUtils(options)
  await utils.migrate()
  return {
    async add(count) {
      const jobs = Array.from({ length: count }, (_, n) => ({ identifier: 'add', payload: { a: n, b: 1 } }))
      const sql = `select 1 from graphile_worker.add_jobs(
        array(select json_populate_recordset(null::graphile_worker.job_spec, $1::json)))`
      await utils.withPgClient((client) => client.query(sql, [JSON.stringify(jobs)]))
    },
    async drain(count, done) {
      let ran = 0
      await runOnce(options, {
        add: ({ a, b }: { readonly a: number; readonly b: number }) => {
          ran += 1
          done(ran)
          return { result: a + b }
        },
      })
      if (ran !== count) throw new Error(`graphile-worker did ${ran} of ${count} jobs`)
    },
    close: () => utils.release(),
  }
}

interface Job {
  waitUntilFinished(events: QueueEvents): Promise<unknown>
}
interface Closable {
  close(): Promise<void>
}
interface Hearable extends Closable {
  setMaxListeners(most: number): unknown
}
interface QueueEvents extends Hearable {
  waitUntilReady(): Promise<unknown>
}
interface Bullmq {
  readonly Queue: new (
    name: string,
    options: object,
  ) => Hearable & {
    add(name: string, data: object): Promise<Job>
    addBulk(jobs: readonly { readonly name: string; readonly data: object }[]): Promise<unknown>
  }
  readonly QueueEvents: new (name: string, options: object) => QueueEvents
  readonly Worker: new (
    name: string,
    work: (job: { readonly data: { readonly a: number; readonly b: number } }) => Promise<unknown>,
    options: object,
  ) => Closable & { waitUntilReady(): Promise<unknown> }
}

/** Where calls are handed in and waited for. */
export interface Caller {
  call(n: number): Promise<unknown>
  close(): Promise<void>
}

interface RedisAddress {
  readonly port: number
  readonly password: string
}

/** BullMQ with its queue, worker and events in one process. */
export async function bullmqCaller(server: RedisAddress, concurrency: number): Promise<Caller> {
  const queue = await bullmqQueue(server)
  const worker = await bullmqWorker(server, concurrency)
  return {
    call: queue.call,
    async close() {
      await worker.close()
      await queue.close()
    },
  }
}

/** The side of BullMQ that hands jobs in: one that it waits for, or many that it does not. */
export async function bullmqQueue(server: RedisAddress): Promise<Caller & { add(count: number): Promise<void> }> {
  const { Queue, QueueEvents } = await queuePeers.load<Bullmq>('bullmq')
  const connection = { host: '127.0.0.1', port: server.port, password: server.password }
  const queue = new Queue('add', { connection })
  const events = new QueueEvents('add', { connection })
  // It listens once for each call that is waited for.
  for (const one of [queue, events]) one.setMaxListeners(0)
  await events.waitUntilReady()
  return {
    call: async (n) => (await queue.add('add', { a: n, b: 1 })).waitUntilFinished(events),
    async add(count) {
      for (let from = 0; from < count; from += mostJobs) {
        const those = Math.min(mostJobs, count - from)
        await queue.addBulk(Array.from({ length: those }, (_, n) => ({ name: 'add', data: { a: from + n, b: 1 } })))
      }
    },
    async close() {
      await Promise.all([queue.close(), events.close()])
    },
  }
}

const mostJobs = 1_000

/** The side of BullMQ that does them, and keeps what they gave. */
export async function bullmqWorker(server: RedisAddress, concurrency: number): Promise<Closable> {
  const { Worker } = await queuePeers.load<Bullmq>('bullmq')
  const connection = { host: '127.0.0.1', port: server.port, password: server.password }
  const worker = new Worker('add', async ({ data: { a, b } }) => ({ result: a + b }), { connection, concurrency })
  await worker.waitUntilReady()
  return worker
}
