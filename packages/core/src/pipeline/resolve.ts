import { type BackendBinding, type Tool, ToolError } from '@gantry/contract'
import type { Backend, Demand, Health } from '../backends/backend.ts'
import { didYouMean } from '../search/index.ts'
import type { PreparedTool } from './lookup.ts'
import type { Run } from './run.ts'

/** A backend as operators see it. */
export interface BackendInfo {
  /** The value of a call's `backend` option: `http:github`, or `local`. */
  readonly key: string
  readonly kind: string
  readonly name: string
  readonly enabled: boolean
}

/**
 * The backends of an executor. A call resolves its backend when it runs, so that a backend can be disabled and enabled
 * without changing the tools. Running calls continue.
 */
export interface BackendRegistry {
  /** The backend of a binding, enabled or not. */
  find(binding: BackendBinding): Backend | undefined
  isEnabled(backend: Backend): boolean
  /** Throws NO_BACKEND for a key that is not registered. */
  enable(key: string): void
  disable(key: string): void
  list(): readonly BackendInfo[]
  all(): readonly Backend[]
  /** Throws CONFIG_INVALID for a key that is already registered. */
  add(backend: Backend): BackendInfo
  /** Removes a backend by its key or name. Running calls continue. Throws NO_BACKEND. */
  remove(name: string): Backend
  /**
   * Checks the health of every backend, or of one. A backend without a check is `unknown`. Never rejects for an error of
   * a backend. `shown` redacts its messages.
   */
  health(
    signal: AbortSignal,
    shown: (backend: Backend, text: string) => string,
    key?: string,
  ): Promise<readonly (BackendInfo & Health)[]>
}

/** Key of a backend. A backend whose name is its kind has no separate name in it. */
export function backendKey(kind: string, name: string | undefined): string {
  return name === undefined || name === kind ? kind : `${kind}:${name}`
}

export function createBackendRegistry(list: readonly Backend[]): BackendRegistry {
  const backends = new Map<string, Backend>()
  const disabled = new Set<Backend>()
  const put = (backend: Backend): void => {
    const key = backendKey(backend.kind, backend.name)
    if (backends.has(key)) throw new ToolError('CONFIG_INVALID', `The backend ${key} is registered twice.`)
    backends.set(key, backend)
  }
  for (const backend of list) put(backend)
  const named = (key: string): Backend => {
    const backend = backends.get(key)
    if (backend !== undefined) return backend
    throw new ToolError('NO_BACKEND', `There is no backend ${key}${didYouMean(key, backends.keys())}.`)
  }
  const info = (backend: Backend): BackendInfo => {
    const { kind, name } = backend
    return { key: backendKey(kind, name), kind, name, enabled: !disabled.has(backend) }
  }
  return {
    find({ kind, name }) {
      const exact = backends.get(backendKey(kind, name))
      if (exact !== undefined || name !== undefined) return exact
      const alike = [...backends.values()].filter((backend) => backend.kind === kind)
      return alike.length === 1 ? alike[0] : undefined
    },
    isEnabled: (backend) => disabled.size === 0 || !disabled.has(backend),
    enable: (key) => void disabled.delete(named(key)),
    disable: (key) => void disabled.add(named(key)),
    list: () => [...backends.values()].map(info),
    all: () => [...backends.values()],
    add(backend) {
      put(backend)
      return info(backend)
    },
    remove(name) {
      const alike = [...backends.values()].filter((backend) => backend.name === name)
      const backend = backends.get(name) ?? (alike.length === 1 ? alike[0] : undefined) ?? named(name)
      backends.delete(backendKey(backend.kind, backend.name))
      disabled.delete(backend)
      return backend
    },
    async health(signal, shown, key) {
      const checked = key === undefined ? [...backends.values()] : [named(key)]
      return Promise.all(
        checked.map(async (backend) => {
          const { status, message } = await healthOf(backend, signal)
          return { ...info(backend), status, ...(message === undefined ? {} : { message: shown(backend, message) }) }
        }),
      )
    },
  }
}

async function healthOf(backend: Backend, signal: AbortSignal): Promise<Health> {
  if (backend.health === undefined) return { status: 'unknown' }
  try {
    return await backend.health(signal)
  } catch (error) {
    return { status: 'down', message: error instanceof Error ? error.message : 'the health check failed' }
  }
}

/** The backend of a call, and its binding. */
export interface Target {
  readonly backend: Backend
  readonly binding: BackendBinding
  /** Index of the binding among the tool's. */
  readonly place: number
}

/**
 * Picks the first of the tool's backends that is registered, enabled and able to enforce the tool's demands.
 * A caller may choose one of the tool's backends, never another one.
 */
export function resolve(run: Run, tool: PreparedTool): Target {
  const target = targetFrom(run, tool, 0)
  if (target === undefined) throw unresolved(run, tool)
  run.backend = target.backend
  return target
}

/** The next backend after one that did not start the call; undefined when there is none. */
export function resolveNext(run: Run, tool: PreparedTool, { place }: Target): Target | undefined {
  const target = targetFrom(run, tool, place + 1)
  if (target !== undefined) run.backend = target.backend
  return target
}

function targetFrom(run: Run, tool: PreparedTool, start: number): Target | undefined {
  const { backends: bindings } = tool.entry.tool
  const { registry } = run.ports
  for (let place = start; place < bindings.length; place += 1) {
    const binding = bindings[place]
    const backend = binding && registry.find(binding)
    if (binding === undefined || backend === undefined || !registry.isEnabled(backend) || !isWanted(run, backend))
      continue
    if (unenforced(run, tool.entry.tool, backend) === undefined) return { backend, binding, place }
  }
  return undefined
}

function isWanted({ request }: Run, { kind, name }: Backend): boolean {
  return request.backend === undefined || request.backend === backendKey(kind, name)
}

/** Why no backend takes the call: none is registered, all are disabled, or none can enforce the tool's demands. */
function unresolved(run: Run, { entry }: PreparedTool): ToolError {
  const { registry } = run.ports
  const wanted = entry.tool.backends.map((binding) => backendKey(binding.kind, binding.name)).join(', ')
  const found = entry.tool.backends.flatMap((binding) => registry.find(binding) ?? [])
  const chosen = run.request.backend
  if (chosen !== undefined && !found.some((backend) => isWanted(run, backend))) {
    return new ToolError('NO_BACKEND', `${entry.id} does not run on ${chosen}; it has ${wanted}.`)
  }
  const enabled = found.filter((backend) => isWanted(run, backend) && registry.isEnabled(backend))
  for (const backend of enabled) {
    const demand = unenforced(run, entry.tool, backend)
    if (demand === undefined) continue
    const what = demand === 'floor' ? `must be isolated at least as ${run.floor} by the policy` : `declares ${demand}`
    const message = `${entry.id} ${what}, which the backend ${backend.name} cannot enforce; nothing was run.`
    return new ToolError('RUNTIME_UNAVAILABLE', message, { stage: 'resolve', retryable: false })
  }
  if (chosen !== undefined) return new ToolError('NO_BACKEND', `${entry.id} needs ${chosen}, which is disabled.`)
  const state = found.length === 0 ? 'none is registered' : 'all are disabled'
  const remedy = found.length === 0 ? missingBackend(run, entry.tool.backends) : ''
  return new ToolError('NO_BACKEND', `${entry.id} needs ${wanted || 'a backend'}, and ${state}.${remedy}`)
}

/** The package that has the backends of a kind, and the function to pass to `backends` of the executor. */
const backendPackages: { readonly [kind: string]: { readonly install?: string; readonly pass: string } } = {
  http: { pass: 'http({ … })' },
  mcp: { install: '@gantry/mcp', pass: 'mcp({ … })' },
  grpc: { install: '@gantry/grpc', pass: 'grpc({ … })' },
  sandboxed: { install: '@gantry/sandbox', pass: 'sandboxedBackend(runtimes.get)' },
  session: { install: '@gantry/sandbox', pass: 'sessionBackend(runtimes.get)' },
  knowledge: { install: '@gantry/knowledge', pass: 'knowledgeBackend(() => knowledge)' },
  files: { install: '@gantry/tools', pass: 'filesBackend()' },
  web: { install: '@gantry/tools', pass: 'webBackend()' },
}

/** The package to install and pass, for the first binding whose kind has no backend in the executor. */
function missingBackend({ ports: { registry } }: Run, bindings: readonly BackendBinding[]): string {
  const present = new Set(registry.all().map(({ kind }) => kind))
  for (const { kind } of bindings) {
    const known = Object.hasOwn(backendPackages, kind) && !present.has(kind) ? backendPackages[kind] : undefined
    if (known === undefined) continue
    const install = known.install === undefined ? 'Pass' : `Run \`npm install ${known.install}\` and pass`
    return ` ${install} \`backends: [${known.pass}]\` to createExecutor, or import createExecutor from gantry (docs/library.md, Packages).`
  }
  return ''
}

const demands = ['profile', 'runtime', 'egress'] as const

/** A demand of the call that this backend cannot enforce. */
function unenforced({ floor }: Run, tool: Tool, backend: Backend): Demand | undefined {
  if (floor !== undefined && floor !== 'none' && !backend.enforces?.includes('floor')) return 'floor'
  if (tool.profile === undefined && tool.runtime === undefined && tool.egress === undefined) return undefined
  return demands.find((demand) => tool[demand] !== undefined && !backend.enforces?.includes(demand))
}
