// One queue or service in a separate process; its argument is the order, and it prints the measurement.
import { quantile } from './measure.ts'
import { type Backlog, bullmqCaller, type Caller, graphileBacklog } from './queue-peers.ts'
import { callAtRate } from './rate.ts'
import { gantryBacklog, gantryCaller } from './service-gantry.ts'
import { httpCaller } from './service-http.ts'

export type Drainer = 'gantry' | 'gantry unsealed' | 'gantry unaudited' | 'graphile' | 'graphile local'
export type Answerer = 'gantry' | 'gantry http' | 'bullmq' | 'gantry embedded'

/** What is to be measured; `url` is that of an empty database. */
export type ServiceOrder =
  | { readonly kind: 'drain'; readonly subject: Drainer; readonly url: string; readonly count: number }
  | { readonly kind: 'depth'; readonly url: string; readonly count: number }
  | { readonly kind: 'memory'; readonly url: string; readonly count: number }
  /** Keeps running, and makes calls on each message `turn`. */
  | {
      readonly kind: 'rate'
      readonly subject: Answerer
      readonly url: string
      readonly password: string
      readonly perSecond: number
      readonly seconds: number
    }
  | {
      readonly kind: 'callers'
      readonly subject: Answerer
      readonly url: string
      readonly callers: number
      readonly seconds: number
    }

export interface DrainFigures {
  readonly perSecond: number
}

export interface Tenth {
  readonly perSecond: number
  /** After a collection. */
  readonly heapBytes: number
  readonly residentBytes: number
}

/** Measured after each tenth of the calls except the first, which includes the start. */
export interface MemoryFigures {
  readonly tenths: readonly Tenth[]
}

export interface TimeFigures {
  readonly perSecond: number
  readonly p50: number
  readonly p99: number
}

/** Milliseconds of each call of a turn. */
export interface TurnFigures {
  readonly times: readonly number[]
}

export type ServiceAnswer = DrainFigures | MemoryFigures | TimeFigures | TurnFigures | { readonly failed: string }

/** As many at a time as graphile-worker's own performance test has in one process. */
const slots = 24
/** Concurrency of BullMQ and of Gantry. */
const callSlots = 64
const warmCalls = 3_000
const warmMs = 3_000
const depthCalls = 30_000
const refill = 1_000

const order = JSON.parse(process.argv[2] ?? '{}') as ServiceOrder
const answer = await measure(order).catch(failure)
process.send?.(answer, () => {
  if (order.kind !== 'rate' || 'failed' in answer) process.exit()
})

function measure(order: ServiceOrder): Promise<ServiceAnswer> {
  if (order.kind === 'drain') return drain(order)
  if (order.kind === 'depth') return depth(order)
  if (order.kind === 'memory') return memory(order)
  return order.kind === 'rate' ? takeTurns(order) : callers(order)
}

function failure(error: unknown): ServiceAnswer {
  return { failed: error instanceof Error ? error.message : String(error) }
}

/** Warm-up calls. */
async function drain({ subject, url, count }: Extract<ServiceOrder, { kind: 'drain' }>): Promise<DrainFigures> {
  const backlog = await backlogOf(subject, url)
  await backlog.add(warmCalls)
  await backlog.drain(warmCalls, () => {})
  await backlog.add(count)
  const watch = stopwatch(count)
  await backlog.drain(count, watch.done)
  await backlog.close()
  return { perSecond: watch.perSecond() }
}

/** Times the calls after the first tenth, which includes the start. */
function stopwatch(count: number) {
  const first = Math.floor(count / 10)
  let since = 0
  let until = 0
  return {
    done(done: number): void {
      if (done === first) since = performance.now()
      if (done === count) until = performance.now()
    },
    perSecond: (): number => ((count - first) * 1_000) / (until - since),
  }
}

function backlogOf(subject: Drainer, url: string): Promise<Backlog> {
  if (subject === 'graphile' || subject === 'graphile local') return graphileBacklog(url, slots, subject !== 'graphile')
  return gantryBacklog({ url, slots, audit: subject === 'gantry' ? 'sealed' : subject.slice('gantry '.length) })
}

/** Keeps the number of waiting calls constant: adds as many as are completed. */
async function depth({ url, count }: Extract<ServiceOrder, { kind: 'depth' }>): Promise<DrainFigures> {
  const backlog = await gantryBacklog({ url, slots })
  await backlog.add(count)
  const watch = stopwatch(depthCalls)
  let adding = Promise.resolve()
  await backlog.drain(depthCalls, (done) => {
    watch.done(done)
    if (done % refill === 0) adding = adding.then(() => backlog.add(refill))
  })
  await adding
  await backlog.close()
  return { perSecond: watch.perSecond() }
}

async function memory({ url, count }: Extract<ServiceOrder, { kind: 'memory' }>): Promise<MemoryFigures> {
  const backlog = await gantryBacklog({ url, slots })
  await backlog.add(count)
  const tenth = count / 10
  const tenths: Tenth[] = []
  let since = 0
  await backlog.drain(count, (done) => {
    if (done % tenth !== 0) return
    const perSecond = (tenth * 1_000) / (performance.now() - since)
    globalThis.gc?.()
    const { heapUsed, rss } = process.memoryUsage()
    tenths.push({ perSecond, heapBytes: heapUsed, residentBytes: rss })
    since = performance.now()
  })
  await backlog.close()
  return { tenths: tenths.slice(1) }
}

function callerOf(subject: Answerer, url: string, password: string): Promise<Caller> {
  if (subject === 'bullmq') return bullmqCaller({ port: Number(new URL(url).port), password }, callSlots)
  if (subject === 'gantry http') return httpCaller({ url, slots: callSlots })
  return gantryCaller({ url: subject === 'gantry embedded' ? undefined : url, slots: callSlots })
}

/** One warm-up turn, then one for each message `turn`; ends with its parent or on the message `end`. */
async function takeTurns({ subject, url, password, ...rate }: RateOrder): Promise<TurnFigures> {
  const caller = await callerOf(subject, url, password)
  const turn = async (): Promise<TurnFigures> => ({ times: await callAtRate(caller.call, rate) })
  process.on('message', async (word: 'turn' | 'end') => {
    if (word === 'turn') return void process.send?.(await turn().catch(failure))
    await caller.close()
    process.exit()
  })
  return turn()
}

type RateOrder = Extract<ServiceOrder, { kind: 'rate' }>

/** The given number of callers, each of which makes its next call when the previous one has ended. */
async function callers(order: Extract<ServiceOrder, { kind: 'callers' }>): Promise<TimeFigures> {
  const { subject, url, callers, seconds } = order
  const caller = await callerOf(subject, url, '')
  const times: number[] = []
  const from = performance.now() + warmMs
  const until = from + seconds * 1_000
  const one = async (): Promise<void> => {
    for (let before = performance.now(); before < until; ) {
      await caller.call(0)
      const now = performance.now()
      if (before >= from && now <= until) times.push(now - before)
      before = now
    }
  }
  await Promise.all(Array.from({ length: callers }, one))
  await caller.close()
  return { perSecond: times.length / seconds, p50: quantile(times, 0.5), p99: quantile(times, 0.99) }
}
