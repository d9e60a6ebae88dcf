import { type BackendBinding, type Tool, ToolError } from '@gantry/contract'
import type { Backend, Demand } from '../backends/backend.ts'
import type { PreparedTool } from './prepare.ts'
import { backendKey } from './registry.ts'
import type { Run } from './run.ts'

/** The backend that will run the call, and the binding that named it. */
export interface Target {
  readonly backend: Backend
  readonly binding: BackendBinding
  /** Place of the binding among the tool's. */
  readonly place: number
}

/**
 * Picks the first of the tool's backends that is registered, in service and able to hold the tool to its demands.
 * A caller may name one of them; it can choose among a tool's backends, never add one.
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
    const binding = bindings[place] as BackendBinding
    const backend = registry.find(binding)
    if (backend === undefined || !registry.isEnabled(backend) || !isWanted(run, backend)) continue
    if (unenforced(run, tool.entry.tool, backend) === undefined) return { backend, binding, place }
  }
  return undefined
}

function isWanted({ request }: Run, { kind, name }: Backend): boolean {
  return request.backend === undefined || request.backend === backendKey(kind, name)
}

/** Why no backend takes the call: none is there, all are out of service, or none can hold the tool to its demands. */
function unresolved(run: Run, { entry }: PreparedTool): ToolError {
  const { registry } = run.ports
  const wanted = entry.tool.backends.map((binding) => backendKey(binding.kind, binding.name)).join(', ')
  const found = entry.tool.backends.flatMap((binding) => registry.find(binding) ?? [])
  const asked = run.request.backend
  if (asked !== undefined && !found.some((backend) => isWanted(run, backend))) {
    return new ToolError('NO_BACKEND', `${entry.id} does not run on ${asked}; it has ${wanted}.`)
  }
  const enabled = found.filter((backend) => isWanted(run, backend) && registry.isEnabled(backend))
  for (const backend of enabled) {
    const demand = unenforced(run, entry.tool, backend)
    if (demand === undefined) continue
    const what = demand === 'floor' ? `must be isolated at least as ${run.floor} by the policy` : `declares ${demand}`
    const message = `${entry.id} ${what}, which the backend ${backend.name} cannot enforce; nothing was run.`
    return new ToolError('RUNTIME_UNAVAILABLE', message, { stage: 'resolve', retryable: false })
  }
  if (asked !== undefined) return new ToolError('NO_BACKEND', `${entry.id} wants ${asked}, which is out of service.`)
  const state = found.length === 0 ? 'none is registered' : 'none is in service'
  const remedy = found.length === 0 ? missingBackend(run, entry.tool.backends) : ''
  return new ToolError('NO_BACKEND', `${entry.id} wants ${wanted || 'a backend'}, and ${state}.${remedy}`)
}

/** Which package has the backends of a kind, and what of it goes into the `backends` of the executor. */
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

/** What to install and to pass for the first binding of whose kind the executor has no backend at all. */
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

/** A demand that this backend would not hold the call to. */
function unenforced({ floor }: Run, tool: Tool, backend: Backend): Demand | undefined {
  if (floor !== undefined && floor !== 'none' && !backend.enforces?.includes('floor')) return 'floor'
  if (tool.profile === undefined && tool.runtime === undefined && tool.egress === undefined) return undefined
  return demands.find((demand) => tool[demand] !== undefined && !backend.enforces?.includes(demand))
}
