import { ToolError } from '@gantry/contract'
import { memoryArtifacts } from './artifacts/memory.ts'
import { memoryAudit } from './audits/memory.ts'
import { createHost, drainBackend, shownText, shutDown } from './backend-lifecycle.ts'
import type { Backend } from './backends/backend.ts'
import { localBackend } from './backends/local.ts'
import type { Catalog, CatalogEntry } from './catalogs/catalog.ts'
import { memoryCatalog } from './catalogs/memory.ts'
import { programBackend } from './code/program-backend.ts'
import { programDefinition, withHidden } from './code/program-tool.ts'
import { DiscoveredTools } from './discovered-tools.ts'
import type { Executor } from './executor-interface.ts'
import { createMethods, type ExecutorMethods, type SharedParts } from './executor-methods.ts'
import {
  asEgress,
  asPolicy,
  asSecrets,
  checkBackend,
  checkDefinedTool,
  checkOptions,
  defaultLimits,
  type ExecutorOptions,
  isPositive,
  localOwner,
  ownIdentity,
} from './executor-options.ts'
import { createRedactionMark } from './json/redact.ts'
import { memoryPins } from './pins/memory.ts'
import { createRunDeadlines, systemClock } from './pipeline/clock.ts'
import { createEvents } from './pipeline/events.ts'
import type { PipelineLimits, Ports } from './pipeline/ports.ts'
import { createPreparedTools } from './pipeline/prepare.ts'
import { type BackendInfo, backendKey, createBackendRegistry } from './pipeline/registry.ts'
import { createHeldSecrets } from './pipeline/secrets.ts'
import { allOf } from './policies/all-of.ts'
import { createDeadlines } from './resilience/deadlines.ts'
import { createSlots } from './resilience/slots.ts'
import { closed, createCallIds } from './run-options.ts'
import { givenRuntimes, runtimeControl } from './runtimes/runtimes.ts'
import { createSafeguards } from './safeguards.ts'
import { createSources } from './tool-discovery.ts'
import { policyPorts } from './tool-visibility.ts'
import type { DefinedTool } from './tools/tool.ts'

/** Composes an executor; the only place where the parts meet. */
export function createExecutor(options: ExecutorOptions = {}): Executor {
  checkOptions(options)
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
  const brought = new DiscoveredTools({
    catalog,
    pins: options.pins ?? memoryPins(),
    now: () => new Date().toISOString(),
    quarantined: ({ id, backend, reason }) => events.emit('tool:quarantined', { id, backend, reason }),
  })
  const held = createHeldSecrets()
  const shown = (backend: Backend, text: string): string => shownText(held, backend, text)
  const sources = createSources(registry.all(), shown, (key) => brought.isQuarantined(key), life.signal)
  const ports: Ports = {
    catalog: withHidden(catalog, programDefinition.tool),
    prepared: createPreparedTools(limits, options.format === undefined ? {} : { format: options.format }),
    registry,
    sources,
    safeguards,
    ...policyPorts(asPolicy(options.policy)),
    approver: options.approver,
    audit: options.audit ?? memoryAudit(),
    artifacts: options.artifacts ?? memoryArtifacts(),
    keepsFiles: options.artifacts !== undefined,
    secrets: asSecrets(options.secrets),
    held,
    mark: createRedactionMark(options.redactionKey),
    slots: createSlots(),
    events,
    tracer: options.tracer,
    clock: systemClock(options.now),
    random: options.random ?? Math.random,
    limits,
    deadlines: createRunDeadlines(createDeadlines()),
  }
  const attach = (backend: Backend): void =>
    backend.attach?.(
      createHost(backend, {
        egress,
        secrets: ports.secrets,
        held: ports.held,
        publish: (from, tools) => brought.publish(from, tools, life.signal),
        report: (key, report) => events.emit('backend:reported', { backend: key, ...report }),
      }),
    )
  for (const backend of registry.all()) attach(backend)
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

  const house: SharedParts = {
    owner,
    nextId,
    isClosed: () => closing !== undefined,
    chainLimits: options.limits?.chain,
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
    await brought.remove(backend)
    await drainBackend(ports, backend, graceMs)
    safeguards.remove(backend)
  }

  const executorOf = (given: Ports): Executor => {
    const under: Ports = { ...given, inner: () => inner }
    const { doors, inner } = createMethods(house, under)
    return { ...doors, tools: Object.assign(doors.tools, changes), ...controlsOf(under) }
  }
  /** Every executor has its own backends; those that no tool is bound to are not worth a line. */
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
      remove: async (name, { graceMs } = {}) => removeBackend(name, isPositive(graceMs) ? graceMs : 5_000),
      list: () => registry.list().filter(isListed()),
      enable: registry.enable,
      disable: registry.disable,
      health: async ({ key, signal = life.signal } = {}) =>
        (await registry.health(signal, shown, key)).filter(key === undefined ? isListed() : () => true),
    },
    quarantine: {
      list: () => brought.quarantined(),
      approve: (id, how = {}) => brought.approve(id, how, how.signal ?? life.signal),
    },
    circuits: safeguards.circuits,
    runtimes: runtimeControl(runtimes, life.signal),
    egress,
    on: events.on,
    close: (how = {}) => {
      const closeAll = async (): Promise<void> => {
        await shutDown(ports, isPositive(how.graceMs) ? how.graceMs : 5_000)
        life.abort(closed())
        unsubscribe()
        await runtimes.close()
        if (egress !== options.egress) await egress.close()
      }
      closing ??= closeAll()
      return closing
    },
  })
  return executorOf(ports)
}

function taken(id: string): ToolError {
  const message = `${id} is registered with another function; use update, or another version.`
  return new ToolError('TOOL_INVALID', message, {
    details: { issues: [{ path: '/run', message: 'is another function' }] },
  })
}
