import type { ErrorCode, OutcomeClass, ResultStatus } from '@gantry/contract'
import type { EventMap, TenantCircuitEvent } from '@gantry/core'

/** The call that an event is about. */
export interface Subject {
  readonly callId: string
  readonly tool: string
  readonly tenant: string
  /** W3C trace context of the call's parent span. */
  readonly traceparent?: string | undefined
}

/** The fields of a call that events carry. */
interface SubjectCall {
  readonly callId: string
  readonly tool: string
  readonly identity: { readonly tenant: string }
  readonly trace?: string | undefined
}

export function subjectOf({ callId, tool, identity, trace }: SubjectCall): Subject {
  return { callId, tool, tenant: identity.tenant, traceparent: trace }
}

/** Events of a process, for logs, metrics and the console. */
export interface WorkerEvents {
  'call:admitted': { readonly callId: string; readonly tool: string; readonly tenant: string }
  'call:refused': {
    readonly tool: string
    readonly code: ErrorCode
    readonly tenant: string
    readonly principal?: string
    /** The message of the error; absent where it can quote arguments. */
    readonly error?: string | undefined
  }
  'call:claimed': Subject & { readonly fence: number; readonly deliveries: number }
  'call:finished': Subject & {
    readonly status: ResultStatus
    readonly code?: ErrorCode | undefined
    /** The message of the error, without secrets. */
    readonly error?: string | undefined
    readonly durationMs: number
    readonly outcome: OutcomeClass
    /** Attempts beyond the first, of the call and of those inside a chain. */
    readonly retries: number
  }
  /** A tool threw. */
  'call:threw': EventMap['call:threw']
  'call:released': Subject & { readonly reason: string }
  /** Neither database nor spool accepts an outcome; it stays in memory and is retried. `held` counts such outcomes. */
  'outcome:held': Subject & { readonly reason: string; readonly held: number }
  /** An outcome that was held in memory is recorded. */
  'outcome:recorded': Subject & { readonly held: number }
  /** The worker stopped before the outcome was recorded; the call is reclaimed when its lease expires. */
  'outcome:lost': Subject & { readonly reason: string }
  /** Progress events of a call are dropped because the store fails. */
  'events:lost': Subject & { readonly events: number }
  'call:dead': Subject & { readonly reason: string }
  /** A lease expired, or another worker reclaimed it, while the call ran here. */
  'lease:lost': { readonly callId: string }
  /** This process reclaimed expired leases of other workers. */
  'lease:reclaimed': { readonly calls: number }
  /** The store refused an outcome, because another worker has claimed the call since. */
  'fence:refused': { readonly callId: string; readonly fence: number }
  /** An operation of this process on a dependency failed because of the dependency, or succeeded. */
  'dependency:failed': { readonly dependency: string; readonly operation: string; readonly reason: string }
  'dependency:worked': { readonly dependency: string; readonly operation: string }
  /** A dependency is unavailable, or available again: the database, the spool, the artifact store or a broker. */
  'dependency:down': { readonly dependency: string; readonly reason: string }
  'dependency:up': { readonly dependency: string; readonly downMs: number }
  /** A file was refused because of the quota of its tenant or principal. */
  'storage:refused': { readonly scope: 'tenant' | 'principal'; readonly tenant: string; readonly principal: string }
  /** The relay tried to send a callback, a reply, a message or news of an approval; `dead` when it does not retry. */
  'callback:tried': {
    readonly callId: string
    readonly kind: 'callback' | 'reply' | 'message' | 'approval'
    readonly outcome: 'sent' | 'again' | 'dead'
    readonly error?: string | undefined
  }
  /** A periodic job failed; it runs again at its next interval. */
  'upkeep:failed': { readonly what: string; readonly reason: string }
  /** The relay could not read or update the outbox; it retries. */
  'relay:failed': { readonly reason: string }
  /** A message was released to its broker, to be delivered again. */
  'message:held': { readonly transport: string; readonly id: string; readonly reason: string }
  /** A message was removed from its broker before it was settled, as by a trim of the stream. */
  'message:gone': { readonly source: string; readonly position: string }
  /** A message that cannot become a call got a reply, or became a dead letter. */
  'message:refused': { readonly source: string; readonly code: ErrorCode; readonly dead: boolean }
  /** Another process of the service has another value of what must be equal in all, or has the same again. */
  'server:differs': {
    readonly worker: string
    readonly host: string
    readonly what: string
    readonly name: string
    readonly advice: string
  }
  'server:agrees': { readonly worker: string; readonly what: string; readonly name: string }
  /** The public keys of an issuer of tokens are unavailable, or available again. */
  'issuer:down': { readonly issuer: string; readonly reason: string }
  'issuer:up': { readonly issuer: string; readonly downMs: number }
  /** The last seal of the audit log, as `number:hash`. */
  'audit:head': { readonly head: string }
  'spool:changed': { readonly depth: number }
  /** Spans were accepted by the collector, or dropped. */
  'spans:sent': { readonly spans: number }
  'spans:lost': { readonly spans: number; readonly reason: string }
  'stage:timed': { readonly stage: 'consume' | 'admit' | 'execute' | 'record' | 'reply'; readonly ms: number }
  'circuit:changed': TenantCircuitEvent
  /** The configuration was reloaded and is in use. */
  'config:read': Readonly<Record<string, never>>
  /** The configuration was reloaded and is invalid; the previous one stays in use. */
  'config:refused': {
    readonly reason: string
    readonly issues: readonly { readonly path: string; readonly message: string }[]
  }
  /** Changed keys of the configuration that need a restart. */
  'config:fixed': { readonly keys: readonly string[] }
  'worker:changed': { readonly state: 'starting' | 'ready' | 'draining' | 'stopped' }
}

export type WorkerEvent = keyof WorkerEvents

/** Emits events to listeners. A listener that throws does not fail the worker. */
export interface Bus {
  emit<Name extends WorkerEvent>(name: Name, event: WorkerEvents[Name]): void
  on<Name extends WorkerEvent>(name: Name, listener: (event: WorkerEvents[Name]) => void): () => void
}

export function createBus(): Bus {
  const listeners = new Map<WorkerEvent, Set<(event: never) => void>>()
  return {
    emit(name, event) {
      for (const listener of listeners.get(name) ?? []) {
        try {
          listener(event as never)
        } catch {
          // The contract of Bus: a listener's error does not fail the worker.
        }
      }
    },
    on(name, listener) {
      const set = listeners.get(name) ?? new Set()
      listeners.set(name, set)
      set.add(listener)
      return () => void set.delete(listener)
    },
  }
}
