import { type Identity, type Result, ToolError } from '@gantry/contract'
import { memoryAudit } from './audits/memory.ts'
import { createHost, shownText } from './backend-host.ts'
import { createSources } from './backend-sources.ts'
import type { Backend } from './backends/backend.ts'
import { localBackend } from './backends/local.ts'
import { sandboxedBackend } from './backends/sandboxed.ts'
import { BroughtTools } from './brought-tools.ts'
import { createCallIds } from './call-ids.ts'
import type { CatalogEntry } from './catalogs/catalog.ts'
import { describeTool } from './catalogs/describe.ts'
import { memoryCatalog } from './catalogs/memory.ts'
import type { Executor } from './executor-interface.ts'
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
  foundTool,
  type Hearing,
  isVisible,
  missing,
  requestOf,
  taken,
} from './executor-parts.ts'
import { memoryPins } from './pins/memory.ts'
import { checkCall } from './pipeline/check.ts'
import { systemClock } from './pipeline/clock.ts'
import { createEvents } from './pipeline/events.ts'
import { createHeldSecrets } from './pipeline/held-secrets.ts'
import { findShown } from './pipeline/lookup.ts'
import { refuseCall, runCall } from './pipeline/pipeline.ts'
import type { CallRequest, PipelineLimits, Ports } from './pipeline/ports.ts'
import { createPreparedTools } from './pipeline/prepare.ts'
import { reconcileCall } from './pipeline/reconcile.ts'
import { createBackendRegistry } from './pipeline/registry.ts'
import { createRunDeadlines } from './pipeline/run-deadlines.ts'
import { streamCall } from './pipeline/stream.ts'
import { createDeadlines } from './resilience/deadlines.ts'
import { createSlots } from './resilience/slots.ts'
import { checkRunOptions, noOptions, type RunOptions } from './run-options.ts'
import { createSafeguards } from './safeguards.ts'
import { lazySandboxes } from './sandboxes.ts'
import { shutDown } from './shut-down.ts'
import type { DefinedTool } from './tools/tool.ts'

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

  const asRequest = (
    tool: string,
    args: unknown,
    given: RunOptions,
    fault?: ToolError,
    hear?: Hearing,
  ): CallRequest => {
    const identity = given.identity === undefined || fault !== undefined ? owner : ownIdentity(given.identity)
    return requestOf(tool, args, given, given.callId ?? nextId(), identity, hear)
  }
  const refusalOf = (given: RunOptions): ToolError | undefined =>
    closing === undefined ? checkRunOptions(given) : closed()
  const call = (tool: string, args: unknown, asked?: RunOptions, hear?: Hearing): Promise<Result> => {
    const given = asked ?? noOptions
    const fault = checkRunOptions(given)
    const request = asRequest(tool, args, given, fault, hear)
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
    check: async (tool, args, given = noOptions) => {
      const refusal = refusalOf(given)
      if (refusal !== undefined) throw refusal
      return checkCall(asRequest(tool, args, given), ports)
    },
    reconcile: async (tool, key, asked) => {
      const given = { ...asked, idempotencyKey: key }
      const refusal = refusalOf(given)
      if (refusal !== undefined) return { state: 'unknown', reason: refusal.message }
      return reconcileCall(key, asRequest(tool, undefined, given), ports)
    },
    chain: async (steps, asked) => {
      const given = asked ?? {}
      // Loaded with the first chain, so that a plain call starts faster.
      const { runChain } = await import('./chain/chain.ts')
      const identity = given.identity === undefined ? {} : { identity: given.identity }
      return runChain(
        steps,
        async (tool, args, { stepId: _step, index: _index, decisive: _decisive, ...step }) =>
          call(tool, args, { ...step, ...identity }),
        { ...given, limits: { ...options.limits?.chain, ...given.limits } },
      )
    },
    checkChain: async (steps, given = {}) => {
      const { refuseInvalid } = await import('./chain/chain.ts')
      refuseInvalid(steps, { ...given, limits: { ...options.limits?.chain, ...given.limits } })
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
