import { type BackendBinding, ToolError } from '@gantry/contract'
import type { Backend } from '../backends/backend.ts'
import type { PreparedTool } from './prepare.ts'
import type { Run } from './run.ts'

/** The backend that will run the call, and the binding that named it. */
export interface Target {
  readonly backend: Backend
  readonly binding: BackendBinding
}

/** Key of a backend among the executor's. */
export function backendKey(kind: string, name: string | undefined): string {
  return name === undefined || name === kind ? kind : `${kind}:${name}`
}

/** Picks the first of the tool's backends that is registered here, at call time, so that backends may come and go. */
export function resolve(run: Run, tool: PreparedTool): Target {
  const { backends: bindings } = tool.entry.tool
  for (const binding of bindings) {
    const backend = run.ports.backends.get(backendKey(binding.kind, binding.name))
    if (backend === undefined) continue
    run.backend = backend
    return { backend, binding }
  }
  const wanted = bindings.map((binding) => backendKey(binding.kind, binding.name)).join(', ')
  throw new ToolError('NO_BACKEND', `${tool.entry.id} wants ${wanted || 'a backend'}, and none is registered.`)
}
