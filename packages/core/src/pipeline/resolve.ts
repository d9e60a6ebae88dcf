import { type BackendBinding, type Tool, ToolError } from '@gantry/contract'
import type { Backend, Demand } from '../backends/backend.ts'
import type { PreparedTool } from './prepare.ts'
import type { Run } from './run.ts'

/** The backend that will run the call, and the binding that named it. */
export interface Target {
  readonly backend: Backend
  readonly binding: BackendBinding
}

/** Key of a backend among the executor's; the only one of its kind may go without a name of its own. */
export function backendKey(kind: string, name: string | undefined): string {
  return name === undefined || name === kind ? kind : `${kind}:${name}`
}

/** Picks the first of the tool's backends that is registered here, at call time, so that backends may come and go. */
export function resolve(run: Run, tool: PreparedTool): Target {
  const { backends: bindings } = tool.entry.tool
  for (const binding of bindings) {
    const backend = find(run.ports.backends, binding)
    if (backend === undefined) continue
    refuseUnenforced(tool, backend)
    run.backend = backend
    return { backend, binding }
  }
  const wanted = bindings.map((binding) => backendKey(binding.kind, binding.name)).join(', ')
  throw new ToolError('NO_BACKEND', `${tool.entry.id} wants ${wanted || 'a backend'}, and none is registered.`)
}

function find(backends: ReadonlyMap<string, Backend>, { kind, name }: BackendBinding): Backend | undefined {
  const exact = backends.get(backendKey(kind, name))
  if (exact !== undefined || name !== undefined) return exact
  const alike = [...backends.values()].filter((backend) => backend.kind === kind)
  return alike.length === 1 ? alike[0] : undefined
}

const demands: readonly Demand[] = ['profile', 'runtime', 'egress']

/** A demand that nothing would hold the tool to is an error that says so. */
function refuseUnenforced({ entry }: PreparedTool, backend: Backend): void {
  if (!isConfined(entry.tool)) return
  for (const demand of demands) {
    if (entry.tool[demand] === undefined || backend.enforces?.includes(demand)) continue
    const message = `${entry.id} declares ${demand}, which the backend ${backend.name} cannot enforce; nothing was run.`
    throw new ToolError('RUNTIME_UNAVAILABLE', message, { stage: 'resolve', retryable: false })
  }
}

function isConfined({ profile, runtime, egress }: Tool): boolean {
  return profile !== undefined || runtime !== undefined || egress !== undefined
}
