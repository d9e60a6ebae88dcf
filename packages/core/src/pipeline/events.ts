import type { ErrorInfo, Identity, Report, Result } from '@gantry/contract'
import type { BackendReport } from '../backends/backend.ts'
import type { CatalogChange } from '../catalogs/catalog.ts'
import type { EgressEvent } from '../egress/egress.ts'
import type { TenantCircuitEvent } from '../resilience/tenant-circuits.ts'

export interface BackendName {
  readonly kind: string
  readonly name: string
}

/** Everything an executor tells its subscribers; metrics, logs and consoles feed on it. */
export interface EventMap {
  /** A tool is about to start. */
  'call:started': { readonly callId: string; readonly tool: string; readonly identity: Identity }
  /** A tool reported progress, a chunk or a log line; secrets are already out. */
  'call:reported': { readonly callId: string; readonly tool: string; readonly report: Report }
  /** A call has its one outcome. */
  'call:finished': { readonly result: Result; readonly identity: Identity }
  /** A tool that was given up on ended after all; nothing changes by it. */
  'call:late': { readonly callId: string; readonly tool: string; readonly ended: 'returned' | 'threw' }
  /** A backend did not start a call, so the tool's next one is tried. */
  'call:failover': {
    readonly callId: string
    readonly tool: string
    readonly from: BackendName
    readonly to: BackendName
    readonly failure: ErrorInfo
  }
  /** A circuit of a tenant, or the one that all share, opened, is on trial, or closed; its name is `tool @ backend`. */
  'circuit:changed': TenantCircuitEvent
  /** A backend went up or down, or has something to say. */
  'backend:reported': BackendReport & { readonly backend: string }
  /** A tool was put into quarantine. */
  'tool:quarantined': { readonly id: string; readonly backend: string; readonly reason: 'changed' | 'renamed' }
  /** Something connected, or tried to. */
  'egress:attempted': EgressEvent
  /** A tool was registered, updated or unregistered. */
  'catalog:changed': CatalogChange
}

export type EventName = keyof EventMap
export type Listener<Name extends EventName> = (event: EventMap[Name]) => void

/**
 * Typed subscriptions. Listeners run at once, in order; one that throws is reported as a process warning and does
 * not touch the call.
 */
export interface Events {
  /** Returns the function that ends the subscription. */
  on<Name extends EventName>(name: Name, listener: Listener<Name>): () => void
  emit<Name extends EventName>(name: Name, event: EventMap[Name]): void
  /** Whether anyone listens; spares building an event for nobody. */
  has(name: EventName): boolean
}

const names: ReadonlySet<string> = new Set<EventName>([
  'call:started',
  'call:reported',
  'call:finished',
  'call:late',
  'call:failover',
  'circuit:changed',
  'backend:reported',
  'tool:quarantined',
  'egress:attempted',
  'catalog:changed',
])

export function createEvents(): Events {
  const listeners = new Map<EventName, ((event: never) => void)[]>()
  return {
    on(name, listener) {
      if (!names.has(name))
        throw new TypeError(`There is no event ${String(name)}; there are ${[...names].join(', ')}.`)
      listeners.set(name, [...(listeners.get(name) ?? []), listener])
      return () => {
        const left = (listeners.get(name) ?? []).filter((other) => other !== listener)
        if (left.length === 0) listeners.delete(name)
        else listeners.set(name, left)
      }
    },
    emit(name, event) {
      for (const listener of listeners.get(name) ?? []) {
        try {
          listener(event as never)
        } catch (error) {
          process.emitWarning(`A listener of ${name} threw: ${error instanceof Error ? error.name : typeof error}`)
        }
      }
    },
    has: (name) => listeners.size > 0 && listeners.has(name),
  }
}
