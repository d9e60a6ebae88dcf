import { ToolError } from '@gantry/contract'
import type { Snapshots } from '../execute/snapshots.ts'
import type { Readiness, Service } from '../http/service.ts'
import type { Artifacts } from '../records/artifacts.ts'
import type { AuditNote } from '../records/audit-notes.ts'
import type { CallViews } from '../records/call-views.ts'
import type { DeadLetters } from '../records/dead-letters.ts'
import type { EventRecords } from '../records/events.ts'
import type { WorkerRecords } from '../records/workers.ts'
import type { CallNews } from '../reply/call-news.ts'
import { callEvents } from '../reply/event-stream.ts'
import type { Waiters } from '../reply/waiters.ts'
import type { CallStore } from '../stores/call-store.ts'
import type { Intake } from './intake.ts'

export interface DoorParts {
  readonly intake: Intake
  readonly store: CallStore
  readonly snapshots: Snapshots
  readonly views: CallViews
  readonly events: EventRecords
  readonly artifacts: Artifacts
  readonly letters: DeadLetters
  readonly workers: WorkerRecords
  readonly waiters: Waiters
  readonly news: CallNews
  readonly circuits: Service['circuits']
  readonly approvals: Service['approvals']
  readonly replay: Service['replay']
  readonly keys: Service['keys']
  readonly policy: Service['policy']
  readonly audit: Service['audit']
  /** Puts on the audit record what somebody did to a call. */
  readonly note: (note: AuditNote) => Promise<void>
  readonly ready: () => Promise<Readiness>
  readonly metrics: Service['metrics']
}

const never = new AbortController().signal
const mostRecent = 20
/** How long a signed address of a file is good for. */
const linkMs = 60_000

/** What HTTP and later doors can ask, each from the part that knows. */
export function createDoors(parts: DoorParts): Service {
  const { intake, store, snapshots, views, events, artifacts, letters, workers, waiters, news } = parts
  return {
    submit: (input, identity) => intake.submit(input, identity),
    async wait(callId, identity, waitMs, signal) {
      const own = waiters.expected(callId, identity.tenant)
      if (own?.outcome !== undefined) return own.outcome
      const leave = new AbortController()
      const waiting = waiters.wait(callId, waitMs, AbortSignal.any([signal, leave.signal]))
      if (own !== undefined) return waiting
      // An outcome that was there before anybody waited is not told again.
      const view = await views.get(callId, identity.tenant, signal).catch((error: unknown) => {
        leave.abort()
        throw error
      })
      if (view.result !== undefined) waiters.tell(callId, view.result)
      return waiting
    },
    async call(callId, identity) {
      const view = await views.get(callId, identity.tenant, never)
      if (view.state !== 'running') return view
      return { ...view, recent: await events.recent(callId, identity.tenant, mostRecent) }
    },
    calls: (query, identity) => views.list(query, identity.tenant),
    async events(callId, afterId, identity, signal) {
      await views.get(callId, identity.tenant, signal)
      return callEvents({ records: events, views, news, callId, tenant: identity.tenant, afterId, signal })
    },
    async cancel(callId, identity) {
      const fate = await store.cancel(callId, identity.tenant)
      if (fate === 'absent') throw new ToolError('NOT_FOUND', 'There is no call of this id.')
      const { tenant, principal } = identity
      if (fate !== 'finished') await parts.note({ tenant, principal, action: 'calls.cancel', target: callId })
      return views.get(callId, tenant, never)
    },
    replay: parts.replay,
    approvals: parts.approvals,
    deadLetters: (query, identity) => letters.list(query, identity.tenant),
    deadLetter: (id, identity) => letters.get(id, identity.tenant),
    redrive: (id, identity) => letters.redrive(id, identity),
    discard: (id, identity) => letters.discard(id, identity),
    async artifactUrl(id, identity, signal) {
      const url = await artifacts.locate(id, identity.tenant, linkMs, signal)
      return url === undefined
        ? { url: `/v1/artifacts/${id}`, signed: false }
        : { url, signed: true, expiresMs: linkMs }
    },
    async artifact(id, range, identity, signal) {
      const { bytes } = await artifacts.find(id, identity.tenant)
      const start = range?.start ?? 0
      const end = Math.min(bytes, range?.end ?? bytes)
      const whole = start === 0 && end === bytes
      const opened = await artifacts.open(id, identity.tenant, whole ? undefined : { start, end }, signal)
      return { ...opened, start, end }
    },
    workers: () => workers.list(),
    runtimes: () => snapshots.current.executor.runtimes.list(),
    circuits: parts.circuits,
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
