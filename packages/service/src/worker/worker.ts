import { type ChainResult, codes, type Result, ToolError } from '@gantry/contract'
import { examine, unknownOutcome, type Verdict } from '../admit/examine.ts'
import { createConsumer } from '../consume/consumer.ts'
import type { LeaseNews, Leases } from '../execute/leases.ts'
import { downstreamKey } from '../execute/run-call.ts'
import type { Snapshot, Snapshots } from '../execute/snapshots.ts'
import type { Recorder } from '../record/recorder.ts'
import type { Bus } from '../stores/bus.ts'
import type { CallStore, Claim, Ending, Holder } from '../stores/call-store.ts'
import { endedOutcome } from '../stores/ended.ts'
import type { Delivery, Transport } from '../transports/transport.ts'
import { afterwards } from './afterwards.ts'
import { createDesk, type Desk, type Task } from './desk.ts'
import { createPace } from './pace.ts'
import { timed } from './timed.ts'

export type Outcome = Result | ChainResult

/** Everything a worker reaches outside itself; a test gives it a clock, randomness and engines of its own. */
export interface WorkerPorts {
  readonly store: CallStore
  readonly transport: Transport
  readonly recorder: Recorder
  readonly leases: (news: LeaseNews) => Leases
  readonly snapshots: Snapshots
  /** Says durably that the work on a call begins; false when it is not ours any more. */
  readonly begin: (holder: Holder) => Promise<boolean>
  /** Runs the call, chain or program; resolves with its outcome, whatever that is, once its reports are kept. */
  readonly execute: (snapshot: Snapshot, task: Task) => Promise<Outcome>
  /** Makes of an outcome what is to be recorded: small enough, with what was large beside it. */
  readonly govern: (task: Task, outcome: Outcome) => Promise<Omit<Ending, keyof Holder | 'config'>>
  /** Tells those who wait here. */
  readonly reply: (claim: Claim, ending: Ending) => void
  readonly bus: Bus
  readonly now: () => Date
  readonly random: () => number
  readonly pause: (ms: number, signal: AbortSignal) => Promise<void>
}

export interface WorkerOptions {
  readonly slots: number
  readonly maxDeaths: number
  /** Calls claimed ahead of the slots while calls are short. */
  readonly ahead: number
}

/**
 * Works on calls: consume → admit → execute → record → reply.
 *
 * It is *running* from `start` on: it takes as many calls as it has room for. `stop` makes it *draining*: it takes no
 * more, hands back what has not begun and lets the rest end. When the grace is over, what still runs is stopped: a call
 * that may be repeated is handed back, one that may not ends as unknown. Then it is *stopped*.
 */
export interface Worker {
  start(): void
  /** Takes calls that were claimed with their submission. */
  take(claims: readonly Claim[]): void
  /** Whether a new call could begin here at once, with none waiting before it. */
  readonly free: boolean
  readonly running: number
  /** Ends a call that runs here. */
  cancel(callId: string): void
  stop(graceMs: number): Promise<void>
}

export function createWorker(ports: WorkerPorts, options: WorkerOptions): Worker {
  const { transport, bus } = ports
  const consuming = new AbortController()
  const pace = createPace(options.slots, options.ahead)
  let consumed: Promise<void> = Promise.resolve()
  let downSince: number | undefined

  const leases = ports.leases({
    lost: (callId) => {
      if (desk.stop(callId, 'lost')) bus.emit('lease:lost', { callId })
    },
    cancelled: (callId) => void desk.stop(callId, 'cancelled'),
  })
  const desk: Desk = createDesk({
    slots: options.slots,
    suspect: (claim, fresh) => {
      const verdict = examine(claim, { ...options, fresh })
      return verdict.kind === 'run' && verdict.alone
    },
    work(task, freeSlot) {
      const start = performance.now()
      return handle(task, ports, options, () => {
        pace.ran(performance.now() - start)
        freeSlot()
        consumer.freed()
      })
    },
    left: ({ claim }, counts) => {
      if (counts) leases.drop([claim.callId])
      consumer.freed()
    },
  })
  const put = (claims: readonly Claim[], fresh: boolean): void => {
    leases.hold(claims)
    for (const { callId, call, fence, deliveries } of claims) {
      bus.emit('call:claimed', { callId, tool: call.tool, fence, deliveries })
    }
    desk.add(claims, fresh)
  }
  const consumer = createConsumer({
    transport,
    room: () => roomOf(desk, options.slots, pace.ahead),
    take: (deliveries) => put(deliveries.flatMap(claimed), false),
    failed(error) {
      downSince ??= ports.now().getTime()
      bus.emit('store:down', { reason: error.message })
    },
    answered() {
      if (downSince !== undefined) bus.emit('store:up', { downMs: ports.now().getTime() - downSince })
      downSince = undefined
    },
    random: ports.random,
    pause: ports.pause,
  })
  return {
    start() {
      consumed = consumer.run(consuming.signal)
    },
    take: (claims) => put(claims, true),
    get free() {
      return !consuming.signal.aborted && consumer.idle && desk.waiting === 0 && desk.running < options.slots
    },
    get running() {
      return desk.running
    },
    cancel: (callId) => void desk.stop(callId, 'cancelled'),
    async stop(graceMs) {
      consuming.abort()
      await consumed
      await handBack(ports, desk.takeWaiting())
      const grace = new AbortController()
      await Promise.race([desk.empty().then(() => grace.abort()), ports.pause(graceMs, grace.signal)])
      for (const { claim } of desk.tasks()) desk.stop(claim.callId, 'stopping')
      await desk.empty()
      await leases.close()
    },
  }
}

/** Outcomes that may wait to be recorded; when there are more, the database is behind, and nothing new is taken. */
const mostUnrecorded = 1_000

/** Room for more than the slots only in large steps, so that claiming stays cheap when calls are short. */
function roomOf({ size, running, waiting }: Desk, slots: number, ahead: number): number {
  const open = running + waiting
  if (size - open >= mostUnrecorded) return 0
  const room = slots + ahead - open
  return open < slots || room >= ahead / 2 ? Math.max(0, room) : 0
}

function claimed({ body }: Delivery): readonly Claim[] {
  return body.kind === 'claimed' ? [body.claim] : []
}

/** What cannot be handed back now comes back when its lease runs out. */
async function handBack({ store, bus }: WorkerPorts, claims: readonly Claim[]): Promise<void> {
  if (claims.length === 0) return
  for (const { callId, call } of claims) bus.emit('call:released', { callId, tool: call.tool, reason: 'stopping' })
  await store.release(claims.map(({ callId, fence }) => ({ callId, fence }))).catch(() => undefined)
}

/**
 * One call, from the claim to its reply; it never rejects. A fault before the tool ran hands the call back. One after it
 * does not, because the tool would run again: then the outcome is what can be recorded, or is left to the lease.
 */
async function handle(task: Task, ports: WorkerPorts, options: WorkerOptions, executed: () => void): Promise<void> {
  await ports.snapshots.use(async (snapshot) => {
    const run = await attempt(task, snapshot, ports, options).catch((error: unknown) =>
      handBackFaulty(task, error, ports),
    )
    executed()
    if (run === undefined) return
    const next = afterwards(task, run.outcome)
    if (next.kind === 'release') await release(task.claim, next, ports).catch(() => undefined)
    if (next.kind !== 'record') return
    await record(task, next.outcome, run.dead, snapshot, ports).catch((error: unknown) => {
      const lost = new ToolError('INTERNAL', `The outcome of the call could not be recorded: ${textOf(error)}`)
      const substitute = endedOutcome(task.claim.call, lost, task.claim.deliveries, ports.now())
      return record(task, substitute, 'Its outcome could not be recorded.', snapshot, ports).catch(() => undefined)
    })
  })
}

interface Attempt {
  readonly outcome: Outcome
  /** Why the call goes to the dead letters. */
  readonly dead?: string | undefined
}

/** Undefined when the call is not ours any more. */
async function attempt(
  task: Task,
  snapshot: Snapshot,
  ports: WorkerPorts,
  options: WorkerOptions,
): Promise<Attempt | undefined> {
  const { claim } = task
  const { bus } = ports
  bus.emit('stage:timed', { stage: 'consume', ms: performance.now() - task.takenAt })
  const verdict = await timed(bus, 'admit', () => admitted(task, snapshot, ports, options))
  if (verdict === undefined) return undefined
  if (verdict.kind === 'found') return { outcome: verdict.result }
  if (verdict.kind === 'end') {
    return { outcome: endedOutcome(claim.call, verdict.error, claim.deliveries, ports.now()), dead: verdict.dead }
  }
  return { outcome: honest(claim, await timed(bus, 'execute', () => ports.execute(snapshot, task))) }
}

/** What is to be done with the call, once what must be durable before it is; undefined when it is not ours to do. */
async function admitted(
  task: Task,
  snapshot: Snapshot,
  { begin }: WorkerPorts,
  options: WorkerOptions,
): Promise<Settled | undefined> {
  const { claim, fresh } = task
  const verdict = await settled(task, examine(claim, { ...options, fresh }), snapshot)
  if (verdict?.kind !== 'run' || !verdict.begin) return verdict
  return (await begin({ callId: claim.callId, fence: claim.fence })) ? verdict : undefined
}

/** This attempt may have changed nothing, but an earlier one, whose holder was lost, may have: nobody knows. */
function honest({ lost, call }: Claim, outcome: Outcome): Outcome {
  const { error } = outcome
  const certain = lost === 0 || call.effect === 'read' || call.effect === 'once'
  if (certain || error === undefined || error.effect === 'possible') return outcome
  return { ...outcome, error: { ...error, effect: 'possible' } }
}

const mostFaults = 10
const faultPauseMs = 1_000

/** A call that nothing is wrong with but that cannot be handled here comes back later, though not for ever. */
async function handBackFaulty(
  { claim, stopped }: Task,
  error: unknown,
  ports: WorkerPorts,
): Promise<Attempt | undefined> {
  if (stopped === 'lost') return undefined
  const reason = textOf(error)
  if (claim.deliveries < mostFaults) {
    await release(claim, { delayMs: faultPauseMs, reason }, ports).catch(() => undefined)
    return undefined
  }
  const failure = new ToolError('INTERNAL', `The call could not be handled: ${reason}`, { effect: 'none' })
  return { outcome: endedOutcome(claim.call, failure, claim.deliveries, ports.now()), dead: reason }
}

type Settled = Extract<Verdict, { kind: 'run' | 'end' }> | { readonly kind: 'found'; readonly result: Result }

/** Asks the tool what an earlier attempt did, where only the tool can tell; undefined when there is no time to ask. */
async function settled(
  { claim, controller }: Task,
  verdict: Verdict,
  { executor }: Snapshot,
): Promise<Settled | undefined> {
  if (verdict.kind !== 'reconcile') return verdict
  const { call } = claim
  const { signal } = controller
  const options = { identity: call.identity, callId: call.callId, signal }
  const answer = await executor.reconcile(call.tool, downstreamKey(call), options)
  if (answer.state === 'found') return { kind: 'found', result: answer.result }
  if (answer.state === 'absent') return { kind: 'run', begin: true, alone: true }
  // What is not known because the worker stops may be known to the next one, once the lease has run out.
  return signal.aborted ? undefined : { kind: 'end', error: unknownOutcome(call.tool) }
}

async function release(
  { callId, fence, call }: Claim,
  { delayMs, reason }: { readonly delayMs: number; readonly reason: string },
  { store, bus }: WorkerPorts,
): Promise<void> {
  await store.release([{ callId, fence, delayMs }])
  bus.emit('call:released', { callId, tool: call.tool, reason })
}

async function record(
  task: Task,
  outcome: Outcome,
  reason: string | undefined,
  snapshot: Snapshot,
  ports: WorkerPorts,
): Promise<void> {
  const { claim } = task
  const { callId, fence, call } = claim
  const dead = reason === undefined ? {} : { dead: { reason } }
  const ending = await timed(ports.bus, 'record', async (): Promise<Ending | undefined> => {
    const made = { callId, fence, config: snapshot.version, ...(await ports.govern(task, outcome)), ...dead }
    return (await ports.recorder.finish(made)) === 'accepted' ? made : undefined
  })
  if (ending === undefined) return
  await timed(ports.bus, 'reply', async () => ports.reply(claim, ending))
  const { status, error, durationMs } = ending.result
  const { tenant } = call.identity
  ports.bus.emit('call:finished', { callId, tool: call.tool, tenant, status, code: error?.code, durationMs })
  if (reason !== undefined) ports.bus.emit('call:dead', { callId, tool: call.tool, reason })
}

function textOf(error: unknown): string {
  return ToolError.is(error) ? `${error.code}: ${error.message}` : `${codes.INTERNAL.summary} ${String(error)}`
}
