import { createHash } from 'node:crypto'
import type {
  Approver,
  Artifacts,
  Audit,
  DefinedTool,
  EventMap,
  Executor,
  SafeguardOptions,
  TenantCircuitEvent,
  Tracer,
} from '@gantry/core'
import { tenantTools } from '@gantry/core/internal/policies/tenant-tools'
import type { Knowledge } from '@gantry/knowledge'
import { builtinTools, createExecutor, demoTools } from '@gantry/tools'
import type { LoadedConfig } from './config.ts'
import { reading } from './problem.ts'
import { toolsByTenant } from './tenant-limits.ts'

/** One version of the configuration, which a call keeps from start to end. */
export interface Snapshot {
  readonly executor: Executor
  /** Identifies the snapshot in the audit log. */
  readonly version: string
}

/**
 * The current snapshot, and earlier ones while calls use them.
 * - Ownership: closes each replaced executor after its last call.
 */
export interface Snapshots {
  /** Throws before the first `replace` when created without a snapshot. */
  readonly current: Snapshot
  use<T>(work: (snapshot: Snapshot) => Promise<T>): Promise<T>
  /** New calls use the next snapshot; running calls keep theirs. */
  replace(next: Snapshot): void
  /** Calls the listener after every `replace`; returns the function that removes it. */
  onReplace(listener: () => void): () => void
  close(): Promise<void>
}

/** The composition root creates it without a snapshot, because components need it before there is an executor. */
export function createSnapshots(first?: Snapshot): Snapshots {
  const users = new Map<Snapshot, number>(first === undefined ? [] : [[first, 0]])
  const closing = new Set<Promise<void>>()
  const listeners = new Set<() => void>()
  let present = first

  const current = (): Snapshot => {
    if (present === undefined) throw new Error('No configuration has been loaded.')
    return present
  }
  const closeUnused = (snapshot: Snapshot): void => {
    if (snapshot === present || users.get(snapshot) !== 0) return
    users.delete(snapshot)
    const done = snapshot.executor.close().finally(() => closing.delete(done))
    closing.add(done)
  }
  return {
    get current() {
      return current()
    },
    async use(work) {
      const snapshot = current()
      users.set(snapshot, (users.get(snapshot) ?? 0) + 1)
      try {
        return await work(snapshot)
      } finally {
        users.set(snapshot, (users.get(snapshot) ?? 1) - 1)
        closeUnused(snapshot)
      }
    },
    replace(next) {
      const before = present
      present = next
      users.set(next, 0)
      if (before !== undefined) closeUnused(before)
      for (const listener of listeners) listener()
    },
    onReplace(listener) {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
    async close() {
      await Promise.all([...users.keys()].map(({ executor }) => executor.close()))
      await Promise.all(closing)
    },
  }
}

/** What the service adds to the executor of a configuration. */
export interface Additions {
  readonly audit: Audit
  readonly tools: readonly DefinedTool[]
  /** Creates the store of tenants' texts. */
  readonly knowledge?: (settings: LoadedConfig['knowledge']) => Knowledge
  /** The artifact store. */
  readonly artifacts?: Artifacts
  /** Grants the trial of an open circuit that other processes share. */
  readonly trials?: SafeguardOptions['trials']
  readonly tracer?: Tracer | undefined
  /** The database time, in milliseconds since 1970. */
  readonly now?: () => number
  /** The key of the digests that replace redacted arguments. */
  readonly redactionKey?: string
  /** Requests approvals; without one, calls that need approval end. */
  readonly approver?: Approver
}

/** Receives changes of circuits, and what tools threw; the event bus of the service is one. */
export interface ExecutorEvents {
  emit(name: 'circuit:changed', event: TenantCircuitEvent): void
  emit(name: 'call:threw', event: EventMap['call:threw']): void
}

/** The service offloads large results to artifacts, and the outputs within a chain or a program need no such limit. */
const largest = 100_000_000
/** An approver of the service may take longer than one at a terminal. */
const approvalMs = 24 * 3_600_000

/** Creates the executor of a configuration; its version is a digest of the configuration. */
export function createSnapshot(
  loaded: LoadedConfig,
  { audit, tools, artifacts, knowledge, trials, tracer, now, approver, redactionKey }: Additions,
  events: ExecutorEvents,
): Snapshot {
  const shipped = [...(loaded.builtins ? builtinTools(loaded.builtinOptions) : []), ...(loaded.demo ? demoTools() : [])]
  const { options } = loaded
  const executor = reading(loaded.file, () =>
    createExecutor({
      ...options,
      audit,
      ...(artifacts === undefined ? {} : { artifacts }),
      ...(knowledge === undefined ? {} : { knowledge: knowledge(loaded.knowledge) }),
      tracer,
      now,
      ...(trials === undefined ? {} : { safeguards: { ...options.safeguards, trials } }),
      ...(approver === undefined ? {} : { approver }),
      ...(redactionKey === undefined ? {} : { redactionKey }),
      limits: { resultBytes: largest, argsBytes: largest, approvalMs, ...options.limits },
      tools: [...shipped, ...tools, ...(options.tools ?? [])],
    }),
  )
  executor.on('circuit:changed', (event) => events.emit('circuit:changed', event))
  executor.on('call:threw', (event) => events.emit('call:threw', event))
  const ofTenants = toolsByTenant(loaded.service.tenants)
  const divided = ofTenants === undefined ? executor : executor.under({ policy: tenantTools(ofTenants) })
  return { executor: divided, version: versionOf(loaded) }
}

function versionOf({ digest, toolsFolder }: LoadedConfig): string {
  if (digest === undefined) return 'default'
  const folder = toolsFolder?.digest ?? ''
  return createHash('sha256').update(digest).update(folder).digest('hex').slice(0, 16)
}
