import type { ChainStep, Identity } from '@gantry/contract'
import type { Executor } from '@gantry/core'

/** What a chain costs: each of its steps once. A tool that is not there for its caller, or not yet, costs nothing. */
export function chainCost(steps: readonly ChainStep[], executor: Pick<Executor, 'find'>, identity: Identity): number {
  const tools = steps.flatMap((step) => ('parallel' in step ? step.parallel : [step])).map(({ tool }) => tool)
  return tools.reduce((sum, tool) => sum + costOf(tool, executor, identity), 0)
}

function costOf(tool: string, executor: Pick<Executor, 'find'>, identity: Identity): number {
  try {
    return executor.find(tool, { identity }).tool.cost ?? 0
  } catch {
    return 0
  }
}
