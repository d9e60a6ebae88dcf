import { ToolError } from '@gantry/contract'
import { memoryArtifacts } from './artifacts/memory.ts'
import { memoryAudit } from './audits/memory.ts'
import { createHost, drainBackend, shownText, shutDown } from './backend-lifecycle.ts'
import type { Backend } from './backends/backend.ts'
import { localBackend } from './backends/local.ts'
import type { Catalog, CatalogEntry } from './catalogs/catalog.ts'
import { memoryCatalog, withHidden } from './catalogs/memory.ts'
import { programBackend } from './code/program-backend.ts'
import { programDefinition } from './code/program-tool.ts'
import type { Executor } from './executor-interface.ts'
import { closed, createMethods, type ExecutorMethods, ownIdentity, type SharedParts } from './executor-methods.ts'
import {
  asEgress,
  asPolicy,
  asSecrets,
  checkBackend,
  checkDefinedTool,
  checkExecutorOptions,
  defaultLimits,
  type ExecutorOptions,
  localOwner,
} from './executor-options.ts'
import { createRedactionMark } from './json/redact.ts'
import { memoryPins } from './pins/memory.ts'
import { createConnectionSecrets } from './pipeline/context.ts'
import { createPreparedTools } from './pipeline/lookup.ts'
import {
  createCallIds,
  createEvents,
  exactClock,
  type PipelineLimits,
  type Ports,
  systemClock,
} from './pipeline/ports.ts'
import { type BackendInfo, backendKey, createBackendRegistry } from './pipeline/resolve.ts'
import { createRunDeadlines } from './pipeline/run.ts'
import { allOf } from './policies/all-of.ts'
import { createDeadlines } from './resilience/deadlines.ts'
import { createSlots, declaredShare } from './resilience/slots.ts'
import { givenRuntimes, runtimeControl } from './runtimes/runtimes.ts'
import { createSafeguards } from './safeguards.ts'
import { createSources, DiscoveredTools } from './tool-discovery.ts'
import { policyPorts } from './tool-visibility.ts'
import type { DefinedTool } from './tools/tool.ts'

/** The composition root of an executor. */
export function createExecutor(options: ExecutorOptions = {}): Executor {
  checkExecutorOptions(options)
  const { now: wall = Date.now, ids } = options
  const local = localBackend()
  const life = new AbortController()
  const runtimes = givenRuntimes(options.runtimes)
  const given = options.backends ?? []
  const registry = createBackendRegistry([local, programBackend(runtimes.get, options.limits?.program), ...given])
  const createCatalog = (): Catalog =>
    memoryCatalog(options.embedder === undefined ? {} : { embedder: options.embedder })
  const catalog = options.catalog ?? createCatalog()
  const limits: PipelineLimits = { ...defaultLimits, ...options.limits }
  const events = createEvents()
  const egress = asEgress(options.egress, (event) => events.emit('egress:attempted', event))
  const safeguards = createSafeguards(options.safeguards ?? {}, registry.all(), (event) => {
    events.emit('circuit:changed', event)
  })
  const discovered = new DiscoveredTools({
    catalog,
    pins: options.pins ?? memoryPins(),
    now: () => new Date(wall()).toISOString(),
    quarantined: ({ id, backend, reason }) => events.emit('tool:quarantined', { id, backend, reason }),
  })
  const connectionSecrets = createConnectionSecrets()
  const shown = (backend: Backend, text: string): string => shownText(connectionSecrets, backend, text)
  const sources = createSources(registry.all(), shown, (key) => discovered.isQuarantined(key), life.signal)
  const ports: Ports = {
    catalog: withHidden(catalog, programDefinition.tool),
    prepared: createPreparedTools(limits, options.format === undefined ? {} : { format: options.format }),
    registry,
    sources,
    safeguards,
    ...policyPorts(asPolicy(options.policy)),
    approver: options.approver,
    audit: options.audit ?? memoryAudit(),
    artifacts: options.artifacts ?? memoryArtifacts({ now: wall, ...(ids === undefined ? {} : { ids }) }),
    keepsFiles: options.artifacts !== undefined,
    secrets: asSecrets(options.secrets),
    connectionSecrets,
    mark: createRedactionMark(options.redactionKey),
    slots: createSlots({ share: declaredShare }),
    events,
    tracer: options.tracer,
    clock: options.exactNow === true ? exactClock(wall) : systemClock(options.now),
    random: options.random ?? Math.random,
    limits,
    deadlines: createRunDeadlines(createDeadlines()),
  }
  const attach = (backend: Backend): void =>
    backend.attach?.(
      createHost(backend, {
        egress,
        secrets: ports.secrets,
        connectionSecrets: ports.connectionSecrets,
        publish: (from, tools) => discovered.publish(from, tools, life.signal),
        report: (key, report) => events.emit('backend:reported', { backend: key, ...report }),
      }),
    )
  for (const backend of registry.all()) attach(backend)
  const nextId = ids ?? createCallIds()
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
  const state = { closed: false }

  const shared: SharedParts = {
    owner,
    nextId,
    state,
    chainLimits: options.limits?.chain,
    engines: options.engines,
    chainId: ids,
    now: options.now,
    createCatalog,
    ready: (signal) => sources.ready(signal),
  }
  const put = (defined: DefinedTool, how: 'register' | 'update'): CatalogEntry => {
    checkDefinedTool(`tools.${how}`, defined)
    const entry = catalog[how](defined.tool)
    const before = local.get(entry.id)
    if (how === 'register' && before !== undefined && before !== defined.run) throw taken(entry.id)
    forget(entry.id)
    if (defined.run !== undefined) local.add(entry.id, defined.run)
    ports.prepared.define(entry, defined)
    return entry
  }
  for (const tool of options.tools ?? []) put(tool, 'register')
  const changing = <T>(change: () => T): T => {
    if (closing !== undefined) throw closed()
    return change()
  }
  const changes = {
    register: (tool: DefinedTool) => changing(() => put(tool, 'register')),
    update: (tool: DefinedTool) => changing(() => put(tool, 'update')),
    unregister: (id: string) => catalog.unregister(id),
  }
  const addBackend = (backend: Backend): BackendInfo => {
    checkBackend(backend)
    const info = registry.add(backend)
    try {
      attach(backend)
    } catch (error) {
      registry.remove(info.key)
      throw error
    }
    safeguards.add(backend)
    sources.add(backend)
    void sources.pending(`${backend.name}:`)
    return info
  }
  const removeBackend = async (name: string, graceMs: number): Promise<void> => {
    if (registry.all().some((one) => one.builtin && (name === one.name || name === backendKey(one.kind, one.name)))) {
      throw new ToolError('CONFIG_INVALID', `Every executor has the backend ${name}; disable it instead.`)
    }
    const backend = registry.remove(name)
    sources.remove(backend)
    await discovered.remove(backend)
    await drainBackend(ports, backend, graceMs)
    safeguards.remove(backend)
  }

  const executorOf = (given: Ports): Executor => {
    const under: Ports = { ...given, inner: () => inner }
    const { methods, inner } = createMethods(shared, under)
    return { ...methods, tools: Object.assign(methods.tools, changes), ...controlsOf(under) }
  }
  /** Built-in backends that no tool is bound to are not listed. */
  const isListed = (): ((info: BackendInfo) => boolean) => {
    const unused = new Set(registry.all().flatMap(({ builtin, kind }) => (builtin ? [kind] : [])))
    for (let page = catalog.list({ limit: 1_000, allVersions: true }); unused.size > 0; ) {
      for (const { tool } of page.items) for (const { kind } of tool.backends) unused.delete(kind)
      if (page.cursor === undefined) break
      page = catalog.list({ limit: 1_000, allVersions: true, cursor: page.cursor })
    }
    return ({ kind }) => !unused.has(kind)
  }
  const controlsOf = (under: Ports): Omit<Executor, keyof ExecutorMethods | 'tools'> => ({
    under: ({ policy, audit = under.audit }) =>
      executorOf({ ...under, audit, ...policyPorts(allOf(under.policy, policy)) }),
    ...changes,
    ready: ({ signal } = {}) => sources.ready(signal),
    catalog,
    backends: {
      register: (backend) => changing(() => addBackend(backend)),
      remove: async (name, { graceMs } = {}) => removeBackend(name, graceOf(graceMs)),
      list: () => registry.list().filter(isListed()),
      enable: registry.enable,
      disable: registry.disable,
      health: async ({ key, signal = life.signal } = {}) =>
        (await registry.health(signal, shown, key)).filter(key === undefined ? isListed() : () => true),
    },
    quarantine: {
      list: () => discovered.quarantined(),
      approve: (id, how = {}) => discovered.approve(id, how, how.signal ?? life.signal),
    },
    circuits: safeguards.circuits,
    runtimes: runtimeControl(runtimes, life.signal),
    egress,
    on: events.on,
    close: (how = {}) => {
      const closeAll = async (): Promise<void> => {
        await shutDown(ports, graceOf(how.graceMs))
        life.abort(closed())
        unsubscribe()
        await Promise.all(Object.values(options.engines ?? {}).map((engine) => engine.close()))
        await runtimes.close()
        if (egress !== options.egress) await egress.close()
      }
      state.closed = true
      closing ??= closeAll()
      return closing
    },
  })
  return executorOf(ports)
}

/** The grace period of running calls; 5 s when the option is absent or invalid. */
function graceOf(graceMs: number | undefined): number {
  return graceMs !== undefined && graceMs > 0 && Number.isFinite(graceMs) ? graceMs : 5_000
}

function taken(id: string): ToolError {
  const message = `${id} is registered with another function; use update, or another version.`
  return new ToolError('TOOL_INVALID', message, {
    details: { issues: [{ path: '/run', message: 'is another function' }] },
  })
}
