import { type ChainStep, type Identity, type Issue, ToolError } from '@gantry/contract'
import type { Executor } from '@gantry/core'
import type { AdmittedCall } from '../storage/calls/call-store.ts'

type Placement = NonNullable<AdmittedCall['placement']>

/**
 * Where a chain may run: it runs in one place, so it needs the labels of all of its tools. A tool that is not there for
 * its caller, or not yet, asks for nothing. Throws CHAIN_INVALID when no worker could have the labels of all.
 */
export function chainPlacement(
  steps: readonly ChainStep[],
  executor: Pick<Executor, 'find'>,
  identity: Identity,
): Pick<AdmittedCall, 'placement'> {
  const placement = new Map<string, string>()
  for (const [index, step] of steps.entries()) {
    for (const { tool } of 'parallel' in step ? step.parallel : [step]) {
      for (const [label, value] of Object.entries(placementOf(tool, executor, identity))) {
        if ((placement.get(label) ?? value) !== value) throw scattered(index)
        placement.set(label, value)
      }
    }
  }
  return placement.size === 0 ? {} : { placement: Object.fromEntries(placement) }
}

function placementOf(tool: string, executor: Pick<Executor, 'find'>, identity: Identity): Placement {
  try {
    return executor.find(tool, { identity }).tool.placement ?? {}
  } catch {
    return {}
  }
}

function scattered(index: number): ToolError {
  const issue: Issue = { path: `/${index}`, message: 'must run elsewhere than the steps before it' }
  const message = `The chain is not valid: ${issue.path} ${issue.message}; make two chains of it.`
  return new ToolError('CHAIN_INVALID', message, { details: { issues: [issue] } })
}
