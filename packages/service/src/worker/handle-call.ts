import { codes, outcomeClassOf, type Result, retriesOf, ToolError } from '@gantry/contract'
import type { Span, Tracer } from '@gantry/core'
import { codeOf } from '@gantry/core/internal/tracing/tracer'
import type { Snapshot } from '../config/snapshots.ts'
import { type Bus, subjectOf, type WorkerEvents } from '../observe/bus.ts'
import { downstreamKey, endedOutcome, needText, plainOf, timeOfCallId } from '../storage/calls/call-facts.ts'
import type { Claim, Ending } from '../storage/calls/call-store.ts'
import {
  type Afterwards,
  afterwards,
  earlierEffect,
  examine,
  unknownOutcome,
  type Verdict,
  wasInPart,
} from './call-decisions.ts'
import type { Paused } from './execute/execute-call.ts'
import type { Outcome, WorkerOptions, WorkerPorts } from './ports.ts'
import { isRefusal } from './record/recorder.ts'
import type { Task } from './slot-scheduler.ts'
import { createUnrecordedOutcomes, type UnrecordedOutcomes } from './unrecorded-outcomes.ts'

/**
 * Handles one call, from its claim to its reply; never rejects. A fault before the tool ran releases the call. A fault
 * after it does not, because the tool would run again: the outcome is kept and retried until it is recorded.
 */
export async function handleCall(
  task: Task,
  ports: WorkerPorts,
  options: WorkerOptions,
  executed: () => void,
  held: UnrecordedOutcomes = createUnrecordedOutcomes(ports),
): Promise<void> {
  const span = taskSpan(ports.tracer, task)
  let code: string | undefined
  await ports.snapshots.use(async (snapshot) => {
    const run = await attempt(task, snapshot, span, ports, options).catch((error: unknown) =>
      handBackFaulty(task, error, ports),
    )
    executed()
    if (run === undefined) return
    const next = 'outcome' in run ? afterwards(task, run.outcome) : back(run)
    if (next.kind === 'release') await held.release(task.claim, () => release(task, next, ports))
    if (next.kind !== 'record' || !('outcome' in run)) return
    const outcome = withLoss(task, run.ran ? withEarlierAttempts(task.claim, next.outcome) : next.outcome)
    const lost = task.unstored?.lost ?? 0
    if (lost > 0) ports.bus.emit('events:lost', { ...subjectOf(task.claim.call), events: lost })
    code = outcome.error?.code
    span?.note({ 'gantry.status': outcome.status })
    let isLeft = false
    const leave = (): void => {
      isLeft = true
    }
    const recorded = recording({ task, snapshot, span, ports, leave }, outcome, run.dead)
    await held.record(task.claim, recorded)
    // It changed nothing and has no outcome: it runs again now, instead of after its lease expired.
    const again = { kind: 'release', delayMs: 0, reason: 'unrecorded' } as const
    if (isLeft) await held.release(task.claim, () => release(task, again, ports))
  })
  span?.end(code)
}

interface Attempt {
  readonly outcome: Outcome
  /** Whether it is the outcome of this attempt, so that it does not include earlier ones. */
  readonly ran?: boolean
  /** Why the call becomes a dead letter. */
  readonly dead?: string | undefined
}

/** Undefined when another worker has the call. */
async function attempt(
  task: Task,
  snapshot: Snapshot,
  span: Span | undefined,
  ports: WorkerPorts,
  options: WorkerOptions,
): Promise<Attempt | Paused | Back | undefined> {
  const { claim } = task
  const { bus } = ports
  bus.emit('stage:timed', { stage: 'consume', ms: performance.now() - task.takenAt })
  const verdict = await timed(bus, 'admit', span, () => admitted(task, snapshot, ports, options))
  if (verdict === undefined) return undefined
  if (verdict.kind === 'elsewhere') return verdict.release
  if (verdict.kind === 'found') return { outcome: verdict.result }
  if (verdict.kind === 'end') {
    return { outcome: endedOutcome(claim.call, verdict.error, claim.lost, ports.now()), dead: verdict.dead }
  }
  const work = (part: Span | undefined) => ports.execute(snapshot, task, part?.traceparent ?? claim.call.trace)
  const outcome = await timed(bus, 'execute', span, work)
  return 'pausedMs' in outcome ? outcome : { outcome, ran: true, dead: unstarted(outcome) }
}

/**
 * Why a call whose sandbox did not start becomes a dead letter: the runtimes have tried three times, it did not run,
 * and an operator can redrive it once the machine is repaired.
 */
function unstarted({ error }: Outcome): string | undefined {
  if (error?.code !== 'SANDBOX_INIT_FAILED') return undefined
  const reason = error.details?.reason
  return [`${error.code}: ${error.message}`, ...(typeof reason === 'string' ? [reason] : [])].join(' ')
}

/** A program that sleeps needs no worker until it wakes. */
function back(run: Paused | Back): Back {
  return 'pausedMs' in run ? { kind: 'release', delayMs: run.pausedMs, reason: 'asleep' } : run
}

/** The decision on the call, once its beginning is durable where required; undefined when another worker has it. */
async function admitted(
  task: Task,
  snapshot: Snapshot,
  ports: WorkerPorts,
  options: WorkerOptions,
): Promise<Settled | undefined> {
  const { claim, fresh } = task
  const examined = examine(claim, { ...options, fresh })
  const lacking = examined.kind === 'end' ? undefined : await lackingTool(claim, examined, snapshot, ports)
  const verdict = lacking ?? (await settled(task, examined, snapshot))
  if (verdict?.kind !== 'run' || !verdict.begin) return verdict
  return (await ports.begin({ callId: claim.callId, fence: claim.fence })) ? verdict : undefined
}

/**
 * Releases a call whose tool is missing here in the version and definition that it was admitted for, as during a
 * rolling deploy, to workers that have it. It waits for such a worker up to a bound, and then ends: as unknown when
 * only the tool could determine what an earlier attempt did. A cancelled call does not wait.
 */
async function lackingTool(
  claim: Claim,
  examined: Verdict,
  snapshot: Snapshot,
  { versions }: WorkerPorts,
): Promise<Extract<Settled, { kind: 'elsewhere' | 'end' }> | undefined> {
  const missing = await versions?.missing(snapshot, claim.call)
  if (versions === undefined || missing === undefined) return undefined
  const { need, error } = missing
  const { waitMs } = versions
  if (claim.waitedOut === undefined && !claim.cancelled) {
    return { kind: 'elsewhere', release: { kind: 'release', delayMs: waitMs, reason: error.code, needs: need } }
  }
  if (examined.kind === 'reconcile') return { kind: 'end', error: unknownOutcome(claim.call.tool) }
  const reason = `No worker had ${needText(need)} within ${waitMs} ms; start one that has it, or submit the call again.`
  const options = { effect: earlierEffect(claim), cause: error, ...(error.details && { details: error.details }) }
  return { kind: 'end', error: new ToolError(error.code, reason, options), dead: reason }
}

/**
 * The outcome of this attempt as the outcome of the call: it counts all attempts, and when a lost one may have changed
 * something, or did a part of a chain or a program, the effect is `possible`.
 */
function withEarlierAttempts(claim: Claim, outcome: Outcome): Outcome {
  const { lost, call } = claim
  const inPart = wasInPart(claim)
  if (lost === 0 && !inPart) return outcome
  const counted = 'attempts' in outcome ? { ...outcome, attempts: outcome.attempts + lost } : outcome
  const { error } = counted
  const certain = !inPart && (call.effect === 'read' || call.effect === 'once')
  if (certain || error === undefined) return counted
  return { ...counted, error: { ...error, effect: 'possible' } }
}

/**
 * Adds a warning when reports of the call are missing; the outcome of a chain has no warnings, and its events have the
 * note.
 */
function withLoss({ unstored }: Task, outcome: Outcome): Outcome {
  if (unstored === undefined || unstored.lost === 0 || !('warnings' in outcome)) return outcome
  const message = `${unstored.lost} reports of the call were lost, because the store failed; its events are not complete.`
  return { ...outcome, warnings: [...outcome.warnings, { code: 'STORE_UNAVAILABLE', message }] }
}

const mostFaults = 10
const faultPauseMs = 1_000

/** A valid call that cannot be handled here is released for later, a bounded number of times. */
function handBackFaulty({ claim, stopped }: Task, error: unknown, ports: WorkerPorts): Attempt | Back | undefined {
  if (stopped === 'lost') return undefined
  const reason = textOf(error)
  if (claim.faults + 1 < mostFaults) return { kind: 'release', delayMs: faultPauseMs, reason, counts: 'fault' }
  const effect = earlierEffect(claim)
  const failure = new ToolError('INTERNAL', `The call could not be handled: ${reason}`, { effect })
  return { outcome: endedOutcome(claim.call, failure, claim.lost, ports.now()), dead: reason }
}

type Settled =
  | Extract<Verdict, { kind: 'run' | 'end' }>
  | { readonly kind: 'found'; readonly result: Result }
  | { readonly kind: 'elsewhere'; readonly release: Back }

/** Asks the tool's reconcile function what an earlier attempt did; undefined when there is no time left. */
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
  // An outcome that is unknown because this worker stops may be found by the next one, once the lease has expired.
  return signal.aborted ? undefined : { kind: 'end', error: unknownOutcome(call.tool) }
}

type Back = Extract<Afterwards, { kind: 'release' }> & { readonly needs?: string }

async function release(
  task: Task,
  { delayMs, reason, asked = false, counts, needs }: Back,
  { store, bus }: WorkerPorts,
): Promise<void> {
  const { callId, fence, call, entering } = task.claim
  const entered = await Promise.resolve(entering).then(
    () => true,
    () => false,
  )
  // A call that was never stored, or that another worker has, cannot be released.
  if (!entered || task.stopped === 'lost') return
  const why = { ...(counts === undefined ? {} : { counts }), ...(needs === undefined ? {} : { needs }) }
  await store.release([{ callId, fence, delayMs, asked, ...why }])
  bus.emit('call:released', { ...subjectOf(call), reason })
}

interface Recording {
  readonly task: Task
  readonly snapshot: Snapshot
  readonly span: Span | undefined
  readonly ports: WorkerPorts
  /** Called when the outcome is neither recorded nor going to be. */
  readonly leave: () => void
}

/**
 * Records the outcome, or an error in its place: a store that accepts the second but not the first refuses the content
 * of this outcome, and always will. Rejects when it accepts neither; then it can be called again.
 */
function recording(about: Recording, outcome: Outcome, dead: string | undefined): () => Promise<void> {
  const { task, ports } = about
  const record = recordOnce(about, outcome, dead)
  return () =>
    record().catch((error: unknown) => {
      if (!isRefusal(error)) throw error
      const lost = new ToolError('INTERNAL', `The outcome of the call could not be recorded: ${textOf(error)}`)
      const substitute = endedOutcome(task.claim.call, lost, task.claim.lost, ports.now())
      return recordOnce(about, substitute, 'The store refused its outcome.')()
    })
}

/** An outcome is offloaded once; a retry reuses it. */
function recordOnce(
  { task, snapshot, span, ports, leave }: Recording,
  outcome: Outcome,
  reason: string | undefined,
): () => Promise<void> {
  const { claim } = task
  const { callId, fence, call } = claim
  const dead = reason === undefined ? {} : { dead: { reason } }
  const awaited = (): boolean => ports.awaits?.(claim) === true
  const unflushed = claim.unflushed === true ? { unflushed: claim.unflushed, awaited } : {}
  let made: Ending | undefined
  const makeEnding = async (): Promise<Ending> => {
    const offloaded = await ports.offload(task, outcome)
    const about = { ...dead, ...unflushed, ...plainOf(call) }
    const { events = [] } = task.unstored ?? {}
    const late = events.length === 0 ? {} : { events }
    const thrown = task.thrownAt === undefined ? {} : { thrownAt: task.thrownAt }
    return { callId, fence, config: snapshot.version, ...offloaded, ...about, ...late, ...thrown }
  }
  return async () => {
    const ending = await timed(ports.bus, 'record', span, async (): Promise<Ending | undefined> => {
      made ??= await makeEnding()
      const recorded = await ports.recorder.finish(made)
      if (recorded === 'left') leave()
      return recorded === 'accepted' ? made : undefined
    })
    if (ending === undefined) return
    await ports.release?.(snapshot, claim, ending)
    await timed(ports.bus, 'reply', span, async () => ports.reply(claim, ending))
    const { status, error, durationMs } = ending.result
    const facts = {
      status,
      code: error?.code,
      error: error?.message,
      durationMs,
      outcome: outcomeClassOf(outcome),
      retries: retriesOf(outcome),
    }
    ports.bus.emit('call:finished', { ...subjectOf(call), ...facts })
    if (reason !== undefined) ports.bus.emit('call:dead', { ...subjectOf(call), reason })
  }
}

function textOf(error: unknown): string {
  return ToolError.is(error) ? `${error.code}: ${error.message}` : `${codes.INTERNAL.summary} ${String(error)}`
}

/**
 * Begins the span of one task, below the trace of its caller. The time in the queue is a sibling span, because no
 * worker had the call; it is recorded once, with the first delivery.
 */
function taskSpan(tracer: Tracer | undefined, { claim, takenAt }: Task): Span | undefined {
  if (tracer === undefined) return undefined
  const { callId, call, deliveries, fence } = claim
  const taken = Date.now() - (performance.now() - takenAt)
  const submitted = timeOfCallId(callId)
  if (deliveries === 1 && submitted !== undefined) {
    tracer.start('task.queue', call.trace, { startedAt: Math.min(submitted, taken) }).end(undefined, taken)
  }
  const facts = {
    'gantry.call_id': callId,
    'gantry.tool': call.tool,
    'gantry.tenant': call.identity.tenant,
    'gantry.delivery': deliveries,
    'gantry.fence': fence,
  }
  const span = tracer.start('gantry.task', call.trace, { kind: 'consumer', facts, startedAt: taken })
  span.child('task.consume', { startedAt: taken }).end()
  return span
}

/** Runs a stage and emits its duration, also when it fails; in a trace it is a child of the task. */
async function timed<T>(
  bus: Bus,
  stage: WorkerEvents['stage:timed']['stage'],
  task: Span | undefined,
  work: (span: Span | undefined) => Promise<T>,
): Promise<T> {
  const start = performance.now()
  const span = task?.child(`task.${stage}`)
  try {
    const done = await work(span)
    span?.end()
    return done
  } catch (error) {
    span?.end(codeOf(error))
    throw error
  } finally {
    bus.emit('stage:timed', { stage, ms: performance.now() - start })
  }
}
