import { type Identity, ToolError } from '@gantry/contract'
import { holds } from '@gantry/core/internal/pipeline/authorize'
import { summarizeCircuits, type TenantState } from '@gantry/core/internal/resilience/circuit-state'
import type { Intake } from '../admission/intake.ts'
import type { Snapshots } from '../config/snapshots.ts'
import type { DependencyHealth } from '../observe/dependency-health.ts'
import type { Readiness } from '../observe/readiness.ts'
import { callEvents } from '../reply/event-stream.ts'
import type { CallNotifications, Waiters } from '../reply/waiters.ts'
import type { Artifacts } from '../storage/artifacts/artifact-records.ts'
import type { AuditNote } from '../storage/audit/entries.ts'
import type { CallViews } from '../storage/call-views.ts'
import type { CallStore } from '../storage/calls/call-store.ts'
import { type DeadLetterReader, operatePermission } from '../storage/dead-letters/dead-letter-rows.ts'
import type { DeadLetters } from '../storage/dead-letters/dead-letters.ts'
import type { EventRecords } from '../storage/events.ts'
import { everyTenant } from '../storage/keys/api-keys.ts'
import type { WorkerRecords } from '../storage/workers.ts'
import type { FleetCircuits } from '../worker/fleet-circuits.ts'
import type { Worker } from '../worker/worker.ts'
import type { Service } from './service.ts'

export interface ServiceApiParts {
  readonly intake: Intake
  readonly store: CallStore
  readonly snapshots: Snapshots
  readonly views: CallViews
  readonly events: EventRecords
  readonly artifacts: Artifacts
  readonly deadLetters: DeadLetters
  readonly workers: Pick<WorkerRecords, 'list'>
  readonly waiters: Waiters
  readonly notifications: CallNotifications
  readonly circuits: Pick<FleetCircuits, 'states' | 'reset'>
  readonly approvals: Service['approvals']
  readonly replay: Service['replay']
  readonly keys: Service['keys']
  readonly policy: Service['policy']
  readonly audit: Service['audit']
  /** Writes an action on a call to the audit log. */
  readonly note: (note: AuditNote) => Promise<void>
  readonly ready: () => Promise<Readiness>
  readonly health: Pick<DependencyHealth, 'list'>
  /** The name of this process, and its worker when it has one. */
  readonly name: string
  readonly worker: Pick<Worker, 'unrecorded'> | undefined
  readonly metrics: Service['metrics']
}

const never = new AbortController().signal
const mostRecent = 20
/** How long the artifact store may take to read large arguments. */
const argsMs = 10_000
/** The validity of a signed URL of a file. */
const linkMs = 60_000

/** Cancels calls of any caller, and writes the action to the audit log. */
export function createCancel(store: Pick<CallStore, 'cancel'>, note: ServiceApiParts['note']) {
  return async (callId: string, tenant: string, by: Identity): Promise<void> => {
    const fate = await store.cancel(callId, tenant)
    if (fate === 'finished' || fate === 'absent') return
    await note({ tenant: by.tenant, principal: by.principal, action: 'calls.cancel', target: callId })
  }
}

/** The service as HTTP and MCP use it. */
export function createServiceApi(parts: ServiceApiParts): Service {
  const { intake, store, snapshots, views, events, artifacts, deadLetters, workers, waiters, notifications, circuits } =
    parts
  const cancel = createCancel(store, parts.note)
  const visibilityOf = (tool: string, identity: Identity) => snapshots.current.executor.visibility(tool, { identity })
  const isShown = ({ circuit, tenant }: TenantState, identity: Identity): boolean =>
    (tenant === undefined || tenant === identity.tenant || holds(identity, everyTenant)) &&
    visibilityOf(toolOf(circuit), identity) !== 'absent'
  const readerOf = (identity: Identity): DeadLetterReader => ({
    identity,
    visibilityOf: (tool) => visibilityOf(tool, identity),
  })
  const outcomeOf: Service['wait'] = async (callId, identity, waitMs, signal) => {
    const own = waiters.expected(callId, identity)
    if (own !== undefined) return own.outcome ?? waiters.wait(callId, waitMs, signal)
    const leave = new AbortController()
    const waiting = waiters.wait(callId, waitMs, AbortSignal.any([signal, leave.signal]))
    // An outcome that precedes the wait causes no notification.
    const view = await views.get(callId, identity, signal).catch((error: unknown) => {
      leave.abort()
      throw error
    })
    if (view.result !== undefined) waiters.tell(callId, view.result)
    return waiting
  }
  return {
    submit: (input, identity, { waits = false, hold } = {}) =>
      intake.submit(input, identity, waits ? { kind: 'waited-for', hold } : { kind: 'handed-in' }),
    async wait(callId, identity, waitMs, signal) {
      const outcome = await outcomeOf(callId, identity, waitMs, signal)
      if (outcome === undefined && !(await store.flush(callId))) throw lost()
      return outcome
    },
    async call(callId, identity, { args: asksArgs = false } = {}) {
      const view = await views.get(callId, identity, never)
      const mayRead = view.principal === identity.principal || holds(identity, operatePermission)
      const args = asksArgs && mayRead ? await views.args(callId, identity, AbortSignal.timeout(argsMs)) : undefined
      const shown = args === undefined ? view : { ...view, args }
      if (view.state !== 'running') return shown
      return { ...shown, recent: await events.recent(callId, identity.tenant, mostRecent) }
    },
    calls: (query, identity) => views.list(query, identity),
    async events(callId, afterId, identity, signal) {
      await views.get(callId, identity, signal)
      return callEvents({
        records: events,
        views,
        notifications: notifications,
        callId,
        tenant: identity.tenant,
        afterId,
        signal,
      })
    },
    async cancel(callId, identity) {
      const { principal } = await views.get(callId, identity, never)
      if (principal !== identity.principal && !holds(identity, operatePermission)) {
        throw new ToolError('DENIED', `To cancel a call of another principal, hold ${operatePermission}.`)
      }
      await cancel(callId, identity.tenant, identity)
      return views.get(callId, identity, never)
    },
    replay: parts.replay,
    approvals: parts.approvals,
    deadLetters: (query, identity) => deadLetters.list(query, readerOf(identity)),
    deadLetter: (id, identity) => deadLetters.get(id, readerOf(identity)),
    async redrive(id, identity) {
      await deadLetters.get(id, readerOf(identity))
      return deadLetters.redrive(id, identity)
    },
    async discard(id, identity) {
      await deadLetters.get(id, readerOf(identity))
      return deadLetters.discard(id, identity)
    },
    async artifactUrl(id, identity, signal) {
      const url = await artifacts.locate(id, identity, linkMs, signal)
      return url === undefined
        ? { url: `/v1/artifacts/${id}`, signed: false }
        : { url, signed: true, expiresMs: linkMs }
    },
    async artifact(id, range, identity, signal) {
      const { bytes } = await artifacts.find(id, identity)
      const start = range?.start ?? 0
      const end = Math.min(bytes, range?.end ?? bytes)
      const whole = start === 0 && end === bytes
      const opened = await artifacts.open(id, identity, whole ? undefined : { start, end }, signal)
      return { ...opened, start, end }
    },
    workers: () => workers.list(),
    async health(identity) {
      const all = holds(identity, everyTenant)
      const held = (parts.worker?.unrecorded ?? []).filter(({ tenant }) => all || tenant === identity.tenant)
      const { ready, problems, notes = [] } = await parts.ready()
      return { worker: parts.name, ready, problems, notes, dependencies: parts.health.list(), unrecorded: held }
    },
    runtimes: () => snapshots.current.executor.runtimes.list(),
    circuits: (identity) => summarizeCircuits(circuits.states().filter((one) => isShown(one, identity))),
    async resetCircuit(key, tenant, identity) {
      const whole = holds(identity, everyTenant)
      if (tenant !== undefined && tenant !== identity.tenant && !whole) {
        throw new ToolError('DENIED', `To reset a circuit of another tenant, hold ${everyTenant}.`)
      }
      // A circuit of one machine may exist in another process only, so the tool decides whether the circuit can exist.
      const known = key.includes(' @ ') && visibilityOf(toolOf(key), identity) !== 'absent'
      if (!known) throw new ToolError('NOT_FOUND', `There is no circuit ${JSON.stringify(key)}.`)
      const whose = tenant ?? (whole ? undefined : identity.tenant)
      const { tenant: by, principal } = identity
      const details = whose === undefined ? {} : { details: { tenant: whose } }
      await parts.note({ tenant: by, principal, action: 'circuits.reset', target: key, ...details })
      return circuits.reset({ circuit: key, ...(whose === undefined ? {} : { tenant: whose }) })
    },
    keys: parts.keys,
    policy: parts.policy,
    audit: parts.audit,
    get executor() {
      return snapshots.current.executor
    },
    ready: parts.ready,
    metrics: parts.metrics,
  }
}

/** The tool of a circuit, which covers all its versions at one backend. */
function toolOf(circuit: string): string {
  return circuit.slice(0, circuit.indexOf(' @ '))
}

/** For a call that was in the database, but not on its disk, when it crashed. */
function lost(): ToolError {
  return new ToolError('SERVICE_UNAVAILABLE', 'The database crashed before the call was durable; submit it again.')
}
