import type { ErrorCode, OutcomeClass, ResultStatus } from '@gantry/contract'
import type { TenantCircuitEvent } from '@gantry/core'

/** The call that something is about. */
export interface Subject {
  readonly callId: string
  readonly tool: string
  readonly tenant: string
  /** The place in a trace that the call belongs below. */
  readonly traceparent?: string | undefined
}

/** What an event needs to know of a call. */
interface SubjectCall {
  readonly callId: string
  readonly tool: string
  readonly identity: { readonly tenant: string }
  readonly trace?: string | undefined
}

export function subjectOf({ callId, tool, identity, trace }: SubjectCall): Subject {
  return { callId, tool, tenant: identity.tenant, traceparent: trace }
}

/** What happens in a worker, for logs, metrics and the console. */
export interface WorkerEvents {
  'call:admitted': { readonly callId: string; readonly tool: string; readonly tenant: string }
  'call:refused': { readonly tool: string; readonly code: ErrorCode; readonly tenant: string }
  'call:claimed': Subject & { readonly fence: number; readonly deliveries: number }
  'call:finished': Subject & {
    readonly status: ResultStatus
    readonly code?: ErrorCode | undefined
    readonly durationMs: number
    readonly outcome: OutcomeClass
    /** Attempts beyond the first, of the call and of those inside a chain. */
    readonly retries: number
  }
  'call:released': Subject & { readonly reason: string }
  /** Neither the database nor the spool takes an outcome; it stays in memory and is tried again. `held`: how many do. */
  'outcome:held': Subject & { readonly reason: string; readonly held: number }
  /** One that was held is recorded. */
  'outcome:recorded': Subject & { readonly held: number }
  /** The worker stopped before it could be recorded: when its lease has run out, the call is taken for abandoned. */
  'outcome:lost': Subject & { readonly reason: string }
  /** Reports of a call that are given up because the store fails. */
  'events:lost': Subject & { readonly events: number }
  'call:dead': Subject & { readonly reason: string }
  /** A lease ran out or was taken over while its call ran here. */
  'lease:lost': { readonly callId: string }
  /** Leases of others that ran out and were taken away. */
  'lease:reclaimed': { readonly calls: number }
  /** An outcome came too late: another holder has the call. */
  'fence:refused': { readonly callId: string; readonly fence: number }
  /** An operation of this process on a dependency failed because of the dependency, or worked. */
  'dependency:failed': { readonly dependency: string; readonly operation: string; readonly reason: string }
  'dependency:worked': { readonly dependency: string; readonly operation: string }
  /** A dependency does not work, or does again: the database, the spool, the artifacts or a broker. */
  'dependency:down': { readonly dependency: string; readonly reason: string }
  'dependency:up': { readonly dependency: string; readonly downMs: number }
  /** A file was refused, because its tenant or principal has stored as much as it may. */
  'storage:refused': { readonly scope: 'tenant' | 'principal'; readonly tenant: string; readonly principal: string }
  /** A callback, an answer or a message was tried; `dead` when it is not tried again. */
  'callback:tried': {
    readonly callId: string
    readonly kind: 'callback' | 'reply' | 'message'
    readonly outcome: 'sent' | 'again' | 'dead'
    readonly error?: string | undefined
  }
  /** Something that is done from time to time failed; it is tried again the next time. */
  'upkeep:failed': { readonly what: string; readonly reason: string }
  /** The outbox could not be read or marked; it is tried again. */
  'relay:failed': { readonly reason: string }
  /** A message was handed back to its broker, to come again. */
  'message:held': { readonly transport: string; readonly id: string; readonly reason: string }
  /** A message was removed from its broker before it was settled: somebody trimmed what was not done. */
  'message:gone': { readonly source: string; readonly position: string }
  /** A message that cannot become a call was answered or put to the dead letters. */
  'message:refused': { readonly source: string; readonly code: ErrorCode; readonly dead: boolean }
  /** The public keys of an issuer of tokens cannot be had, or can again. */
  'issuer:down': { readonly issuer: string; readonly reason: string }
  'issuer:up': { readonly issuer: string; readonly downMs: number }
  /** The last seal of the audit record, as `number:hash`. */
  'audit:head': { readonly head: string }
  'spool:changed': { readonly depth: number }
  /** Spans that the collector of traces took, or that it will never have. */
  'spans:sent': { readonly spans: number }
  'spans:lost': { readonly spans: number; readonly reason: string }
  'stage:timed': { readonly stage: 'consume' | 'admit' | 'execute' | 'record' | 'reply'; readonly ms: number }
  'circuit:changed': TenantCircuitEvent
  /** The configuration was read again and is in use. */
  'config:read': Readonly<Record<string, never>>
  /** It was read again and is wrong: the one before stays in use. */
  'config:refused': {
    readonly reason: string
    readonly issues: readonly { readonly path: string; readonly message: string }[]
  }
  /** These keys of it were changed, and need a restart. */
  'config:fixed': { readonly keys: readonly string[] }
  'worker:changed': { readonly state: 'starting' | 'ready' | 'draining' | 'stopped' }
}

export type WorkerEvent = keyof WorkerEvents

/** Tells whoever listens; a listener's fault is not the worker's. */
export interface Bus {
  emit<Name extends WorkerEvent>(name: Name, event: WorkerEvents[Name]): void
  on<Name extends WorkerEvent>(name: Name, hear: (event: WorkerEvents[Name]) => void): () => void
}

export function createBus(): Bus {
  const listeners = new Map<WorkerEvent, Set<(event: never) => void>>()
  return {
    emit(name, event) {
      for (const hear of listeners.get(name) ?? []) {
        try {
          hear(event as never)
        } catch {
          // Nothing to do: the worker goes on.
        }
      }
    },
    on(name, hear) {
      const set = listeners.get(name) ?? new Set()
      listeners.set(name, set)
      set.add(hear)
      return () => void set.delete(hear)
    },
  }
}
