import { type Identity, ToolError } from '@gantry/contract'
import type { Executor, Tracer } from '@gantry/core'
import { traced } from '@gantry/core/internal/tracing/tracer'
import { checkCallback } from '../config/callback-target.ts'
import type { ServiceSettings } from '../config/service-settings.ts'
import type { Snapshots } from '../config/snapshots.ts'
import type { Bus } from '../observe/bus.ts'
import type { DependencyHealth } from '../observe/dependency-health.ts'
import type { Artifacts } from '../storage/artifacts/artifact-records.ts'
import { keepPayload } from '../storage/artifacts/payload.ts'
import type { Refusals } from '../storage/audit/audit-log.ts'
import { createBatch } from '../storage/batch.ts'
import type { CallInput } from '../storage/call-input.ts'
import type { AdmittedCall, CallStore, ClaimOptions, ReplyAddress, Submitted } from '../storage/calls/call-store.ts'
import { stillHeld } from '../storage/calls/still-held.ts'
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
  /** Puts what was refused on the audit record. */
  readonly refusals?: Pick<Refusals, 'add'>
  /** The worker of this process, when it has one: a free one gets a new call without the detour through the queue. */
  readonly worker: Pick<Worker, 'accepts' | 'claimable' | 'room' | 'take' | 'unrecorded'> | undefined
  /** How the worker of this process claims now. */
  readonly claim: () => ClaimOptions
  readonly unanswered: Pick<UnansweredClaims, 'add'>
  /** Knows when the database does not answer; absent where it is part of this process. */
  readonly health: Pick<DependencyHealth, 'isSilent' | 'onSilent'> | undefined
  /** Where large payloads are kept, and withdrawn from when the call is not going to be one. */
  readonly artifacts: Pick<Artifacts, 'keep' | 'withdraw'>
  readonly present?: AdmitOptions['present']
  /** The limits of tenants and principals. */
  readonly gate: TenantGate
  /** Makes place for the answer of a call that somebody here will wait for. */
  readonly expect: (callId: string, caller: Identity) => void
  readonly newId: () => string
  /** Whether the store can do nothing but wait for the disk. */
  readonly flushes: boolean
}

/** Takes calls in: refused, or kept durably and on their way. */
export interface Intake {
  submit(input: CallInput, identity: Identity, origin?: Origin): Promise<Submission>
  /** From now on every call is refused. */
  close(): void
}

interface Submission {
  readonly callId: string
  readonly repeated: boolean
}

/** How far a call has come, for its answer when the database falls silent. */
interface Attempt {
  /** It may be in the database. */
  isSent: boolean
  /** Its caller was answered: it must not be sent any more. */
  isRefused: boolean
}

interface Checked {
  readonly call: AdmittedCall
  /** Gives back what the call cost, when it is not going to be one. */
  readonly refund: () => void
}

/** Where a call comes from. */
type Origin =
  /** Its caller is told that it is kept, and where; the usual one. */
  | { readonly kind: 'handed-in' }
  /** Its caller hears nothing until it has ended, or whoever waits for it in his place has seen to it that it lasts. */
  | {
      readonly kind: 'waited-for'
      /** Takes the place where he waits; throws RATE_LIMITED when there is none. */
      readonly hold?: (() => void) | undefined
    }
  /** Nobody here waits for it. */
  | { readonly kind: 'broker'; readonly reply: ReplyAddress | undefined }

export function createIntake(parts: IntakeParts): Intake {
  const { store, snapshots, depth, bus, worker, claim, gate, unanswered, health } = parts
  const { settings } = parts
  let closed = false
  const queueing = createBatch<AdmittedCall, Submitted>((calls) => store.submit(calls), { atOnce: 2 })
  /** All of a batch are taken together: the first may block this thread, and then nobody would hold the others. */
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
  /** Those before them are not waited for, and nobody waits for them; where they cannot go ahead they go the usual way. */
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
    if (closed) throw new ToolError('SERVICE_UNAVAILABLE', 'The service is about to stop.')
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
  /** Whether the worker of this process gets a call at once. */
  const goesDirect = (call: AdmittedCall, fromBroker: boolean): boolean => {
    const { identity, delayMs, slot, placement = {} } = call
    if (worker === undefined || delayMs !== undefined || slot !== undefined) return false
    if (Number.isFinite(gate.mostAtOnce(identity))) return false
    const { labels } = claim()
    if (Object.entries(placement).some(([label, value]) => labels?.[label] !== value)) return false
    // Where calls that wait are counted, a crowd does not wait inside of the worker instead, which knows of none of it yet.
    if (gate.counts(identity) && claiming.size + goingAhead.size >= Math.max(1, worker.claimable)) return false
    // Who waits wants to be first; messages come in crowds, of which a worker takes as many as it would from its queue.
    return fromBroker ? worker.room > 0 : worker.accepts(identity.tenant)
  }
  /** Places for a call that is going to wait, among those of its caller and, unless it is delayed, among all. */
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
  /** Of a call that a limit refuses: the one that was taken in under its key before, so that no answer is lost to it. */
  const knownBefore = async (input: CallInput, identity: Identity, refusal: unknown): Promise<string | undefined> => {
    const limited = ToolError.is(refusal) && refusal.code === 'RATE_LIMITED'
    if (!limited || input.idempotencyKey === undefined) return undefined
    const found = await snapshots
      .use(({ executor }) => admit(input, identity, { executor, newId: parts.newId, now: Date.now, keep: keepNothing }))
      .then((call) => store.known(call))
      .catch(() => undefined)
    return found?.kind === 'duplicate' ? found.callId : undefined
  }
  /** Of a call that is there already, which may not be on the disk yet. */
  const repeatOf = async (callId: string) => {
    if (!parts.flushes) await store.flush(callId)
    return { callId, repeated: true }
  }
  /** What cannot be removed now goes a day later. */
  const withdraw = async ({ callId, payloadRef }: AdmittedCall): Promise<void> => {
    if (payloadRef !== undefined) await parts.artifacts.withdraw(callId).catch(() => undefined)
  }
  const refused = (input: CallInput, identity: Identity, error: unknown, config: string): void => {
    const code = ToolError.is(error) ? error.code : 'INTERNAL'
    const tool = String(input.tool ?? input.kind).slice(0, 200)
    bus.emit('call:refused', { tool, code, tenant: identity.tenant })
    const { tenant, principal } = identity
    const reason = ToolError.is(error) ? error.message : undefined
    parts.refusals?.add({ tenant, principal, tool, code, config, reason })
  }
  const take = async (input: CallInput, identity: Identity, origin: Origin, attempt: Attempt): Promise<Submission> => {
    // The check begins with the snapshot that is current now, so that this is the one that refuses.
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
      // It may be in the store all the same, which the next count tells.
      for (const place of places) place.keep()
      throw error
    })
    bus.emit('dependency:worked', submission)
    for (const place of places) submitted.kind === 'new' ? place.keep() : place.leave()
    // What was there already was paid for when it came first.
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
      if (health.isSilent('database')) throw unreachable(attempt)
      const silence = Promise.withResolvers<never>()
      const unhear = health.onSilent('database', () => {
        attempt.isRefused = true
        silence.reject(unreachable(attempt))
      })
      // What was sent is still waited for, so that a call that the database keeps after all is run.
      return Promise.race([take(input, identity, origin, attempt), silence.promise]).finally(unhear)
    },
    close() {
      closed = true
    },
  }
}

/** What changes nothing may run while it is being submitted; in a crowd that would make outcomes wait for submissions. */
const mostAhead = 4

/** Whether nothing is lost with a call but what its caller can ask for again. */
function onlyReads({ kind, effect, callback }: AdmittedCall): boolean {
  return kind === 'call' && effect === 'read' && callback === undefined
}

/** For a call that is only looked up. */
const keepNothing = async () => ({ payloadBytes: 0 })

/** What is asked of the database for each call that comes in. */
const submission = { dependency: 'database', operation: 'submit' } as const

function holding(): ToolError {
  const text = 'The service takes no calls while it holds outcomes that cannot be recorded; /readyz names them.'
  return new ToolError('SERVICE_UNAVAILABLE', text, { stage: 'admit', details: { retryAfterMs: 1_000 } })
}

/** As when the connection is lost: of a call that was sent it is not known whether it was kept. */
function unreachable({ isSent }: Attempt): ToolError {
  const kept = isSent ? 'whether the call was kept is not known' : 'the call was not kept'
  return new ToolError('STORE_UNAVAILABLE', `The database does not answer; ${kept}.`, {
    effect: isSent ? 'possible' : 'none',
    details: { outcome: isSent ? 'unknown' : 'none', retryAfterMs: 1_000 },
  })
}

function full(maxQueued: number): ToolError {
  return new ToolError('RATE_LIMITED', `${maxQueued} calls wait already.`, {
    stage: 'admit',
    details: { retryAfterMs: 1_000 },
  })
}

function conflict({ key }: AdmittedCall): ToolError {
  return new ToolError('IDEMPOTENCY_CONFLICT', `The idempotency key ${key} was used before for another call.`)
}

/** Notes each call as it comes in, below the trace of its caller; whatever is done for the call later stands below that. */
export function tracedIntake(intake: Intake, tracer: Tracer | undefined): Intake {
  if (tracer === undefined) return intake
  return {
    ...intake,
    submit(input, identity, origin) {
      const broker = origin?.kind === 'broker' ? (origin.reply?.transport ?? 'broker') : undefined
      const door = broker ?? 'http'
      const span = tracer.start('gantry.submit', input.traceparent, {
        kind: broker === undefined ? 'server' : 'consumer',
        facts: { 'gantry.door': door, 'gantry.tenant': identity.tenant },
      })
      return traced(span, async () => {
        const submitted = await intake.submit({ ...input, traceparent: span.traceparent }, identity, origin)
        span.note({ 'gantry.call_id': submitted.callId, 'gantry.repeated': submitted.repeated })
        return submitted
      })
    },
  }
}

/** Gives a call that is redriven the concurrency limit that its tool has today. */
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
    // A tool that is gone ends the call when it runs, with that reason.
    return call
  }
}
