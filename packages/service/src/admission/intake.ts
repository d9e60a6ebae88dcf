import { type Identity, ToolError } from '@gantry/contract'
import type { Executor, Tracer } from '@gantry/core'
import { traced } from '@gantry/core/internal/tracing/tracer'
import { checkCallback } from '../config/callback-target.ts'
import type { ServiceSettings } from '../config/service-settings.ts'
import type { Snapshots } from '../config/snapshots.ts'
import type { Bus } from '../observe/bus.ts'
import { type ResponseWatch, unlessUnresponsive } from '../observe/dependency-health.ts'
import type { Artifacts } from '../storage/artifacts/artifact-records.ts'
import { keepPayload } from '../storage/artifacts/payload.ts'
import type { Refusals } from '../storage/audit/audit-log.ts'
import { createBatch } from '../storage/batch.ts'
import type {
  AdmittedCall,
  CallInput,
  CallStore,
  ClaimOptions,
  ReplyAddress,
  Submitted,
} from '../storage/calls/call-store.ts'
import { stillHeld } from '../storage/calls/lease-time.ts'
import type { Worker } from '../worker/worker.ts'
import { type AdmitOptions, admit } from './admit.ts'
import type { QueueDepth, QueueSlot } from './counted-slots.ts'
import type { TenantGate } from './limits.ts'
import type { UnansweredClaims } from './unanswered-claims.ts'

interface IntakeParts {
  readonly store: CallStore
  readonly snapshots: Snapshots
  readonly depth: QueueDepth
  readonly settings: Pick<
    ServiceSettings,
    'maxQueued' | 'callbacks' | 'callbackOrigins' | 'inlineBytes' | 'artifactBytes'
  >
  readonly bus: Bus
  /** Writes refusals to the audit log. */
  readonly refusals?: Pick<Refusals, 'add'>
  /** The worker of this process, if any: with a free slot it gets a new call without the detour through the queue. */
  readonly worker: Pick<Worker, 'accepts' | 'claimable' | 'freeSlots' | 'take' | 'unrecorded'> | undefined
  /** The current claim options of the worker of this process. */
  readonly claim: () => ClaimOptions
  readonly unanswered: Pick<UnansweredClaims, 'add'>
  /** Knows when the database does not answer; absent where the database is part of this process. */
  readonly health: ResponseWatch | undefined
  /** Stores large payloads, and withdraws them when the call is refused. */
  readonly artifacts: Pick<Artifacts, 'keep' | 'withdraw'>
  readonly present?: AdmitOptions['present']
  /** The limits of tenants and principals. */
  readonly gate: TenantGate
  /** Announces a waiter for the outcome of a call that a request here will wait for. */
  readonly expect: (callId: string, caller: Identity) => void
  readonly newId: () => string
  /** Whether each commit of the store waits for the disk. */
  readonly flushes: boolean
}

/** Admits calls: each is refused, or stored durably and queued or claimed. */
export interface Intake {
  submit(input: CallInput, identity: Identity, origin?: Origin): Promise<Submission>
  /** Refuses every call from now on. */
  close(): void
}

interface Submission {
  readonly callId: string
  readonly repeated: boolean
}

/** The progress of a submission, for its answer when the database stops answering. */
interface Attempt {
  /** The call may be in the database. */
  isSent: boolean
  /** The caller was answered: the call must not be submitted any more. */
  isRefused: boolean
}

interface Checked {
  readonly call: AdmittedCall
  /** Gives back the cost of a call that is not stored. */
  readonly refund: () => void
}

/** How a call was submitted. */
type Origin =
  /** The caller is answered once the call is stored; the usual case. */
  | { readonly kind: 'handed-in' }
  /** The caller is answered when the call has ended, or when the request that waits has made the call durable. */
  | {
      readonly kind: 'waited-for'
      /** Takes a slot for the waiting caller; throws RATE_LIMITED when there is none. */
      readonly hold?: (() => void) | undefined
    }
  /** No request in this process waits for the call. */
  | { readonly kind: 'broker'; readonly reply: ReplyAddress | undefined }

export function createIntake(parts: IntakeParts): Intake {
  const { store, snapshots, depth, bus, worker, claim, gate, unanswered, health } = parts
  const { settings } = parts
  let closed = false
  const queueing = createBatch<AdmittedCall, Submitted>((calls) => store.submit(calls), { atOnce: 2 })
  /**
   * The worker takes a batch in one step: the first call may block this thread, and nothing would renew the leases of
   * the others.
   */
  const claiming = createBatch<{ readonly call: AdmittedCall; readonly lasting: boolean }, Submitted>(
    async (items) => {
      const askedAt = performance.now()
      const calls = items.map(({ call }) => call)
      const unflushed = items.every(({ lasting }) => !lasting)
      const asked = claim()
      const submitted = await store.submit(calls, asked, { unflushed }).catch((error: unknown) => {
        if (ToolError.is(error) && error.details?.outcome === 'unknown') unanswered.add(calls, asked)
        throw error
      })
      const claims = submitted.flatMap((one) => (one.kind === 'new' && one.claim !== undefined ? [one.claim] : []))
      worker?.take(await stillHeld(store, claims, { askedAt, leaseMs: asked.leaseMs }))
      return submitted
    },
    { atOnce: 2 },
  )
  /** Batches that wait for no earlier batch and delay no later one; a call that cannot go ahead is claimed as usual. */
  const goingAhead = createBatch<AdmittedCall, Submitted>(
    async (calls) => {
      const ahead = calls.length > mostAhead ? undefined : store.submitAhead?.(calls, claim())
      if (ahead === undefined) return Promise.all(calls.map((call) => claiming.add({ call, lasting: false })))
      worker?.take(ahead.claims)
      return ahead.submitted
    },
    { atOnce: Number.POSITIVE_INFINITY },
  )
  const claimed = (call: AdmittedCall, lasting: boolean): Promise<Submitted> =>
    lasting || store.submitAhead === undefined ? claiming.add({ call, lasting }) : goingAhead.add(call)

  const keep: AdmitOptions['keep'] = (text, callId, owner) =>
    keepPayload(text, { callId, owner, artifacts: parts.artifacts, limits: settings })

  const check = async (input: CallInput, identity: Identity, origin: Origin): Promise<Checked> => {
    if (closed)
      throw new ToolError(
        'SERVICE_UNAVAILABLE',
        'The service is stopping and admits no calls; retry on another instance or later.',
      )
    if ((worker?.unrecorded.length ?? 0) > 0) throw holding()
    if (origin.kind === 'waited-for') origin.hold?.()
    const { maxQueued, callbacks, callbackOrigins } = settings
    const crowded = depth.full()
    if (crowded !== undefined && (await crowded)) throw full(maxQueued)
    const entering = gate.enter(identity)
    if (entering !== undefined) await entering
    const usual = Object.hasOwn(callbacks, identity.tenant) ? callbacks[identity.tenant] : undefined
    const callback = input.callback ?? usual
    if (callback !== undefined) await checkCallback(callback, callbackOrigins, snapshots.current.executor.egress)
    const asked = callback === undefined ? input : { ...input, callback }
    let refund = (): void => undefined
    const charge = async (cost: number): Promise<void> => {
      refund = await gate.spend(identity, cost)
    }
    const call = await snapshots
      .use(({ executor }) =>
        admit(asked, identity, {
          executor,
          newId: parts.newId,
          now: Date.now,
          keep,
          charge,
          present: parts.present,
        }),
      )
      .catch((error: unknown) => {
        refund()
        throw error
      })
    return { call, refund: () => refund() }
  }
  /** Whether the worker of this process claims the call with its submission. */
  const goesDirect = (call: AdmittedCall, fromBroker: boolean): boolean => {
    const { identity, delayMs, slot, placement = {} } = call
    if (worker === undefined || delayMs !== undefined || slot !== undefined) return false
    if (Number.isFinite(gate.mostAtOnce(identity))) return false
    const { labels } = claim()
    if (Object.entries(placement).some(([label, value]) => labels?.[label] !== value)) return false
    // A limit on waiting calls must not be evaded by calls that wait inside the worker, whose count lags behind.
    if (gate.counts(identity) && claiming.size + goingAhead.size >= Math.max(1, worker.claimable)) return false
    // A waiting request goes first; of messages, which arrive in bulk, the worker takes as many as from its queue.
    return fromBroker ? worker.freeSlots > 0 : worker.accepts(identity.tenant)
  }
  /** Slots for a call that is going to wait: one of its caller and, unless it is delayed, one of the whole queue. */
  const placesFor = async ({ identity, delayMs = 0 }: AdmittedCall): Promise<readonly QueueSlot[]> => {
    const own = await gate.place(identity)
    const places = own === undefined ? [] : [own]
    if (delayMs > 0) return places
    const among = await depth.take().catch((error: unknown) => {
      own?.leave()
      throw error
    })
    if (among !== undefined) return [...places, among]
    own?.leave()
    throw full(settings.maxQueued)
  }
  /**
   * For a call that a limit refuses: the call that was admitted under the same key before, so that a retry still gets
   * its answer.
   */
  const knownBefore = async (input: CallInput, identity: Identity, refusal: unknown): Promise<string | undefined> => {
    const limited = ToolError.is(refusal) && refusal.code === 'RATE_LIMITED'
    if (!limited || input.idempotencyKey === undefined) return undefined
    const found = await snapshots
      .use(({ executor }) => admit(input, identity, { executor, newId: parts.newId, now: Date.now, keep: keepNothing }))
      .then((call) => store.known(call))
      .catch(() => undefined)
    return found?.kind === 'duplicate' ? found.callId : undefined
  }
  /** Answers with a call that exists already; it may not be flushed to the disk yet. */
  const repeatOf = async (callId: string) => {
    if (!parts.flushes) await store.flush(callId)
    return { callId, repeated: true }
  }
  /** A payload that cannot be removed now is removed by retention a day later. */
  const withdraw = async ({ callId, payloadRef }: AdmittedCall): Promise<void> => {
    if (payloadRef !== undefined) await parts.artifacts.withdraw(callId).catch(() => undefined)
  }
  const refused = (input: CallInput, identity: Identity, error: unknown, config: string): void => {
    const code = ToolError.is(error) ? error.code : 'INTERNAL'
    const tool = String(input.tool ?? input.kind).slice(0, 200)
    const { tenant, principal } = identity
    const reason = ToolError.is(error) ? error.message : undefined
    // The message about an argument may quote it, and arguments are never logged.
    const quotes = code === 'INPUT_INVALID' || code === 'PAYLOAD_INVALID' || code === 'CHAIN_INVALID'
    bus.emit('call:refused', { tool, code, tenant, principal, error: quotes ? undefined : reason })
    parts.refusals?.add({ tenant, principal, tool, code, config, reason })
  }
  const take = async (input: CallInput, identity: Identity, origin: Origin, attempt: Attempt): Promise<Submission> => {
    // The checks use the snapshot that is current now, so the refusal is recorded under its version.
    const { version } = snapshots.current
    const orKnown = async (error: unknown): Promise<string> => {
      const callId = await knownBefore(input, identity, error)
      if (callId !== undefined) return callId
      refused(input, identity, error, version)
      throw error
    }
    const checked = await check(input, identity, origin).catch(orKnown)
    if (typeof checked === 'string') return repeatOf(checked)
    const fromBroker = origin.kind === 'broker'
    const reply = fromBroker ? origin.reply : undefined
    const call = reply === undefined ? checked.call : { ...checked.call, reply }
    const direct = goesDirect(call, fromBroker)
    const places = direct
      ? []
      : await placesFor(call).catch(async (error: unknown) => {
          checked.refund()
          await withdraw(call)
          return orKnown(error)
        })
    if (typeof places === 'string') return repeatOf(places)
    if (attempt.isRefused) {
      checked.refund()
      for (const place of places) place.leave()
      await withdraw(call)
      throw unreachable(attempt)
    }
    attempt.isSent = true
    if (!fromBroker) parts.expect(call.callId, identity)
    const lasting = origin.kind !== 'waited-for' || parts.flushes || !onlyReads(call)
    const kept = direct ? claimed(call, lasting) : queueing.add(call)
    const submitted = await kept.catch((error: unknown) => {
      if (ToolError.is(error) && error.code === 'STORE_UNAVAILABLE') {
        bus.emit('dependency:failed', { ...submission, reason: error.message })
      }
      checked.refund()
      // The call may be stored all the same; the next count finds out.
      for (const place of places) place.keep()
      throw error
    })
    bus.emit('dependency:worked', submission)
    for (const place of places) submitted.kind === 'new' ? place.keep() : place.leave()
    // A repeated call was paid for when it was first admitted.
    if (submitted.kind !== 'new') {
      checked.refund()
      await withdraw(call)
    }
    if (submitted.kind === 'conflict') throw conflict(call)
    if (submitted.kind === 'duplicate') return repeatOf(submitted.callId)
    bus.emit('call:admitted', { callId: call.callId, tool: call.tool, tenant: identity.tenant })
    return { callId: submitted.callId, repeated: false }
  }
  return {
    async submit(input, identity, origin = { kind: 'handed-in' }) {
      const attempt: Attempt = { isSent: false, isRefused: false }
      if (health === undefined) return take(input, identity, origin, attempt)
      const refusal = (): ToolError => {
        attempt.isRefused = true
        return unreachable(attempt)
      }
      // A call that was sent runs if the database stores it after all.
      return unlessUnresponsive(health, 'database', refusal, () => take(input, identity, origin, attempt))
    },
    close() {
      closed = true
    },
  }
}

/**
 * Calls that only read may run while they are being submitted; beyond this number outcomes would wait for submissions.
 */
const mostAhead = 4

/** Whether losing the call loses nothing that its caller cannot request again. */
function onlyReads({ kind, effect, callback }: AdmittedCall): boolean {
  return kind === 'call' && effect === 'read' && callback === undefined
}

/** For a lookup, which stores no payload. */
const keepNothing = async () => ({ payloadBytes: 0 })

const submission = { dependency: 'database', operation: 'submit' } as const

function holding(): ToolError {
  const text = 'The service admits no calls while it holds outcomes that it cannot record; /readyz names them.'
  return new ToolError('SERVICE_UNAVAILABLE', text, { stage: 'admit', details: { retryAfterMs: 1_000 } })
}

/** As for a lost connection: whether a call that was sent is stored is unknown. */
function unreachable({ isSent }: Attempt): ToolError {
  const kept = isSent ? 'whether the call was kept is not known' : 'the call was not kept'
  return new ToolError('STORE_UNAVAILABLE', `The database does not answer; ${kept}.`, {
    effect: isSent ? 'possible' : 'none',
    details: { outcome: isSent ? 'unknown' : 'none', retryAfterMs: 1_000 },
  })
}

function full(maxQueued: number): ToolError {
  return new ToolError(
    'RATE_LIMITED',
    `The queue is full: ${maxQueued} calls wait, which is the limit maxQueued; try again in a second.`,
    {
      stage: 'admit',
      details: { retryAfterMs: 1_000 },
    },
  )
}

function conflict({ key }: AdmittedCall): ToolError {
  return new ToolError('IDEMPOTENCY_CONFLICT', `The idempotency key ${key} was used before for another call.`)
}

/** Adds a span for each submission, below the trace of its caller; the later spans of the call are its children. */
export function tracedIntake(intake: Intake, tracer: Tracer | undefined): Intake {
  if (tracer === undefined) return intake
  return {
    ...intake,
    submit(input, identity, origin) {
      const broker = origin?.kind === 'broker' ? (origin.reply?.transport ?? 'broker') : undefined
      const transport = broker ?? 'http'
      const span = tracer.start('gantry.submit', input.traceparent, {
        kind: broker === undefined ? 'server' : 'consumer',
        facts: { 'gantry.door': transport, 'gantry.tenant': identity.tenant },
      })
      return traced(span, async () => {
        const submitted = await intake.submit({ ...input, traceparent: span.traceparent }, identity, origin)
        span.note({ 'gantry.call_id': submitted.callId, 'gantry.repeated': submitted.repeated })
        return submitted
      })
    },
  }
}

/** Gives a redriven call the concurrency limit that its tool has now. */
export function slotsOfToday(snapshots: Pick<Snapshots, 'current'>): (call: AdmittedCall) => AdmittedCall {
  return (call) => withSlot(call, snapshots.current.executor)
}

function withSlot(call: AdmittedCall, { catalog }: Pick<Executor, 'catalog'>): AdmittedCall {
  if (call.kind === 'chain') return call
  try {
    const { key, tool } = catalog.find(call.tool)
    if (tool.concurrency === undefined) return call
    return { ...call, slot: { key: tool.concurrencyKey ?? key, limit: tool.concurrency } }
  } catch {
    // The worker ends a call whose tool was removed, with that reason.
    return call
  }
}
