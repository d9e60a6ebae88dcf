import type { ChainStep } from '@gantry/contract'
import type { Executor } from '@gantry/core'

/** What a chain costs: each of its steps once. A tool that is not there, or not yet, costs nothing. */
export function chainCost(steps: readonly ChainStep[], { catalog }: Pick<Executor, 'catalog'>): number {
  const tools = steps.flatMap((step) => ('parallel' in step ? step.parallel : [step])).map(({ tool }) => tool)
  return tools.reduce((sum, tool) => sum + costOf(tool, catalog), 0)
}

function costOf(tool: string, catalog: Executor['catalog']): number {
  try {
    return catalog.find(tool).tool.cost ?? 0
  } catch {
    return 0
  }
}
