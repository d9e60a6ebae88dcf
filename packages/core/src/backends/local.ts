import { ToolError } from '@gantry/contract'
import type { Backend, BackendCall, ToolContext } from './backend.ts'

/** A function of this process: sync, async, or an async generator that streams. */
export type LocalFunction = (args: never, context: ToolContext) => unknown

/** Runs functions of this process, found by tool id with version. */
export interface LocalBackend extends Backend {
  add(id: string, run: LocalFunction): void
  get(id: string): LocalFunction | undefined
  remove(id: string): void
}

export function localBackend(): LocalBackend {
  const functions = new Map<string, LocalFunction>()
  return {
    kind: 'local',
    name: 'local',
    builtin: true,
    add: (id, run) => void functions.set(id, run),
    get: (id) => functions.get(id),
    remove: (id) => void functions.delete(id),
    health: async () => ({ status: 'up' }),
    call(call: BackendCall, context: ToolContext): unknown {
      const run = functions.get(call.id)
      if (run === undefined) {
        throw new ToolError('NO_BACKEND', `No function is registered for ${call.id}.`, { stage: 'execute' })
      }
      return run(call.args as never, context)
    },
  }
}
