import {
  type ChainResult,
  type ChainStep,
  type Identity,
  type Result,
  type StreamEvent,
  ToolError,
  type Warning,
} from '@gantry/contract'
import { memoryAudit } from './audits/memory.ts'
import { createHost, shownText } from './backend-host.ts'
import { createSources, type SourceFault } from './backend-sources.ts'
import type { Backend, Health } from './backends/backend.ts'
import { localBackend } from './backends/local.ts'
import { sandboxedBackend } from './backends/sandboxed.ts'
import { type ApproveOptions, BroughtTools, type QuarantinedTool } from './brought-tools.ts'
import { createCallIds } from './call-ids.ts'
import type { Catalog, CatalogEntry, EntryFilter, ListQuery, Page } from './catalogs/catalog.ts'
import { type DescribeOptions, describeTool, type ToolDoc } from './catalogs/describe.ts'
import { memoryCatalog } from './catalogs/memory.ts'
import type { ChainOptions } from './chain/chain.ts'
import type { Egress } from './egress/egress.ts'
import {
  checkOptions,
  defaultLimits,
  type ExecutorOptions,
  isPositive,
  localOwner,
  ownIdentity,
} from './executor-options.ts'
import {
  asEgress,
  asPolicy,
  asSecrets,
  closed,
  type FoundTool,
  foundTool,
  type Hearing,
  isVisible,
  missing,
  requestOf,
  taken,
} from './executor-parts.ts'
import { memoryPins } from './pins/memory.ts'
import { systemClock } from './pipeline/clock.ts'
import { createEvents, type Events } from './pipeline/events.ts'
import { createHeldSecrets } from './pipeline/held-secrets.ts'
import { findShown } from './pipeline/lookup.ts'
import { refuseCall, runCall } from './pipeline/pipeline.ts'
import type { CallRequest, PipelineLimits, Ports } from './pipeline/ports.ts'
import { createPreparedTools } from './pipeline/prepare.ts'
import { type BackendInfo, createBackendRegistry } from './pipeline/registry.ts'
import { createRunDeadlines } from './pipeline/run-deadlines.ts'
import { streamCall } from './pipeline/stream.ts'
import { createDeadlines } from './resilience/deadlines.ts'
import { createSlots } from './resilience/slots.ts'
import { checkRunOptions, noOptions, type RunOptions } from './run-options.ts'
import { type CircuitControl, createSafeguards } from './safeguards.ts'
import { lazySandboxes, type RuntimeControl } from './sandboxes.ts'
import { shutDown } from './shut-down.ts'
import type { DefinedTool } from './tools/tool.ts'

export interface FindOptions extends EntryFilter {
  readonly limit?: number | undefined
  readonly cursor?: string | undefined
  readonly identity?: Identity | undefined
  readonly signal?: AbortSignal | undefined
}

/**
 * Runs tools. Every call, from whichever door, passes the same pipeline.
 * - Concurrency: any number of calls at once.
 * - Errors: `run`, `stream` and `chain` never throw for what a call does; they answer with a Result. Discovery and
 *   registration throw ToolError.
 * - Ownership: `close` ends what runs and closes the backends; after it every call is refused.
 */
export interface Executor {
  /** Always a Result, whatever the outcome. */
  run(tool: string, args?: unknown, options?: RunOptions): Promise<Result>
  /** The same, for those who prefer exceptions: throws ToolError with the Result on it unless the status is ok. */
  runOrThrow(tool: string, args?: unknown, options?: RunOptions): Promise<Result>
  /** Events of one call as they happen; stopping the loop cancels the call. */
  stream(tool: string, args?: unknown, options?: RunOptions): AsyncGenerator<StreamEvent, void>
  chain(
    steps: readonly ChainStep[],
    options?: ChainOptions & { readonly identity?: Identity | undefined },
  ): Promise<ChainResult>
  /** Tools that fit the words, best first, of those the caller may use. */
  search(query: string, options?: FindOptions): Promise<Page<FoundTool> & { readonly warning?: Warning }>
  /** What there is to know of one tool, at one of three levels. */
  describe(tool: string, options?: DescribeOptions & { readonly identity?: Identity | undefined }): Promise<ToolDoc>
  /** Tools by id, of those the caller may use. */
  tools(query?: ListQuery & { readonly identity?: Identity | undefined }): Page<CatalogEntry>
  register(tool: DefinedTool): CatalogEntry
  /** Replaces a version, or adds it. Calls that already run are not touched. */
  update(tool: DefinedTool): CatalogEntry
  unregister(id: string): boolean
  /** Asks every backend for the tools it brings, which else the first search or call does; gives those that failed. */
  ready(options?: { readonly signal?: AbortSignal | undefined }): Promise<readonly SourceFault[]>
  readonly catalog: Catalog
  readonly backends: BackendControl
  readonly quarantine: QuarantineControl
  readonly circuits: CircuitControl
  /** Which sandboxes there are for programs. */
  readonly runtimes: RuntimeControl
  /** The guarded way out; its rules may be changed while calls run. */
  readonly egress: Egress
  readonly on: Events['on']
  /** Takes no more calls, lets running ones end for `graceMs` (5 s), then cancels them and closes the backends. */
  close(options?: { readonly graceMs?: number }): Promise<void>
}

/** Takes backends out of service and puts them back; calls that already run there go on. */
export interface BackendControl {
  list(): readonly BackendInfo[]
  enable(key: string): void
  disable(key: string): void
  /** Asks every backend, or one; never rejects for what a backend does. */
  health(options?: {
    readonly key?: string | undefined
    readonly signal?: AbortSignal | undefined
  }): Promise<readonly (BackendInfo & Health)[]>
}

/** Tools that may not be called, because they are not what was approved. */
export interface QuarantineControl {
  list(): readonly QuarantinedTool[]
  /** Trusts a tool as it is now, or not at all when it is not what the given hash is of. */
  approve(id: string, options?: ApproveOptions): Promise<void>
}

/** Composes an executor; the only place where the parts meet. */
export function createExecutor(options: ExecutorOptions = {}): Executor {
  checkOptions(options)
  const local = localBackend()
  const life = new AbortController()
  const sandboxes = lazySandboxes(options.runtimes, life.signal)
  const registry = createBackendRegistry([local, sandboxedBackend(sandboxes.source), ...(options.backends ?? [])])
  const catalog = options.catalog ?? memoryCatalog(options.embedder === undefined ? {} : { embedder: options.embedder })
  const limits: PipelineLimits = { ...defaultLimits, ...options.limits }
  const policy = asPolicy(options.policy)
  const events = createEvents()
  const egress = asEgress(options.egress, (event) => events.emit('egress:attempted', event))
  const safeguards = createSafeguards(options.safeguards ?? {}, registry.all(), (event) => {
    events.emit('circuit:changed', event)
  })
  const brought = new BroughtTools({
    catalog,
    pins: options.pins ?? memoryPins(),
    now: () => new Date().toISOString(),
    quarantined: ({ id, backend, reason }) => events.emit('tool:quarantined', { id, backend, reason }),
  })
  const held = createHeldSecrets()
  const shown = (backend: Backend, text: string): string => shownText(held, backend, text)
  const sources = createSources(registry.all(), shown, (key) => brought.isQuarantined(key), life.signal)
  const ports: Ports = {
    catalog,
    prepared: createPreparedTools(limits, options.format === undefined ? {} : { format: options.format }),
    registry,
    sources,
    safeguards,
    policy,
    visible: (identity, entry) => isVisible(policy, identity, entry),
    approver: options.approver,
    audit: options.audit ?? memoryAudit(),
    secrets: asSecrets(options.secrets),
    held,
    slots: createSlots(),
    events,
    clock: systemClock(),
    random: options.random ?? Math.random,
    limits,
    deadlines: createRunDeadlines(createDeadlines()),
  }
  for (const backend of registry.all()) {
    backend.attach?.(
      createHost(backend, {
        egress,
        secrets: ports.secrets,
        held: ports.held,
        publish: (from, tools) => brought.publish(from, tools, life.signal),
        report: (key, report) => events.emit('backend:reported', { backend: key, ...report }),
      }),
    )
  }
  const nextId = createCallIds()
  const owner = options.identity === undefined ? localOwner : ownIdentity(options.identity)
  const unsubscribe = catalog.subscribe((change) => {
    if (change.kind === 'unregistered') for (const id of change.ids) forget(id)
    ports.events.emit('catalog:changed', change)
  })
  const forget = (id: string): void => {
    local.remove(id)
    ports.prepared.forget(id)
  }
  let closing: Promise<void> | undefined

  const call = (tool: string, args: unknown, asked?: RunOptions, hear?: Hearing): Promise<Result> => {
    const given = asked ?? noOptions
    const fault = checkRunOptions(given)
    const identity = given.identity === undefined || fault !== undefined ? owner : ownIdentity(given.identity)
    const request = requestOf(tool, args, given, given.callId ?? nextId(), identity, hear)
    const refusal = closing === undefined ? fault : closed()
    return refusal === undefined ? runCall(request, ports) : refuseCall(request, ports, refusal)
  }
  const put = (defined: DefinedTool, how: 'register' | 'update'): CatalogEntry => {
    const entry = catalog[how](defined.tool)
    const before = local.get(entry.id)
    if (how === 'register' && before !== undefined && before !== defined.run) throw taken(entry.id)
    forget(entry.id)
    if (defined.run !== undefined) local.add(entry.id, defined.run)
    ports.prepared.define(entry, defined)
    return entry
  }
  const visible = (identity: Identity, also?: (entry: CatalogEntry) => boolean) => (entry: CatalogEntry) =>
    ports.visible(identity, entry) && (also?.(entry) ?? true)

  for (const tool of options.tools ?? []) put(tool, 'register')

  return {
    run: (tool, args, given) => call(tool, args, given),
    runOrThrow: async (tool, args, given) => {
      let failure: ToolError | undefined
      const result = await call(tool, args, given, {
        failed(error) {
          failure = error
        },
      })
      if (failure === undefined) return result
      const { code, message, details, effect, retryable, stage } = failure
      const facts = details === undefined ? {} : { details }
      throw new ToolError(code, message, { cause: failure.cause, effect, retryable, stage, result, ...facts })
    },
    stream: (tool, args, given) => {
      const callId = given?.callId ?? nextId()
      const start = async (report: NonNullable<CallRequest['report']>, signal: AbortSignal): Promise<Result> =>
        call(tool, args, { ...given, callId, signal }, { report })
      return streamCall(callId, start, given?.signal)
    },
    chain: async (steps, asked) => {
      const given = asked ?? {}
      // Loaded with the first chain, so that a plain call starts faster.
      const { runChain } = await import('./chain/chain.ts')
      const identity = given.identity === undefined ? {} : { identity: given.identity }
      return runChain(
        steps,
        async (tool, args, { stepId: _step, index: _index, ...step }) => call(tool, args, { ...step, ...identity }),
        { ...given, limits: { ...options.limits?.chain, ...given.limits } },
      )
    },
    search: async (query, { identity = owner, allow, ...rest } = {}) => {
      const faults = await sources.ready(rest.signal)
      const page = await catalog.search(query, { ...rest, allow: visible(identity, allow) })
      const items = page.items.map(({ entry, score }) => foundTool(entry, score))
      return { ...page, items, ...(faults[0] === undefined ? {} : { warning: missing(faults[0]) }) }
    },
    describe: async (tool, { identity = owner, ...how } = {}) => {
      await sources.pending(tool)
      const entry = findShown(catalog, tool, visible(identity), sources)
      if (!visible(identity)(entry)) {
        throw new ToolError('TOOL_NOT_FOUND', `There is no tool ${tool}.`, { details: { nearest: [] } })
      }
      return describeTool(entry, { ...how, versions: catalog.versions(entry.key) })
    },
    tools: ({ identity = owner, allow, ...query } = {}) => catalog.list({ ...query, allow: visible(identity, allow) }),
    register: (tool) => put(tool, 'register'),
    update: (tool) => put(tool, 'update'),
    unregister: (id) => catalog.unregister(id),
    ready: ({ signal } = {}) => sources.ready(signal),
    catalog,
    backends: {
      list: registry.list,
      enable: registry.enable,
      disable: registry.disable,
      health: ({ key, signal = life.signal } = {}) => registry.health(signal, shown, key),
    },
    quarantine: {
      list: () => brought.quarantined(),
      approve: (id, how = {}) => brought.approve(id, how, how.signal ?? life.signal),
    },
    circuits: safeguards.circuits,
    runtimes: sandboxes.control,
    egress,
    on: events.on,
    close: (how = {}) => {
      const closeAll = async (): Promise<void> => {
        await shutDown(ports, isPositive(how.graceMs) ? how.graceMs : 5_000)
        life.abort(closed())
        unsubscribe()
        await sandboxes.close()
        if (egress !== options.egress) await egress.close()
      }
      closing ??= closeAll()
      return closing
    },
  }
}
