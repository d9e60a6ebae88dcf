import type { Executor } from '@gantry/core'

const builtin = 'code:program'

/** Whether a tool runs programs over tools; the one that every executor has need not be in its catalog. */
export function isProgramTool(catalog: Executor['catalog'], id: string): boolean {
  try {
    return catalog.find(id).tool.backends.some(({ kind }) => kind === 'program')
  } catch {
    return id === builtin || id.startsWith(`${builtin}:`)
  }
}
