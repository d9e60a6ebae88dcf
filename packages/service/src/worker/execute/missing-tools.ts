import type { ToolError } from '@gantry/contract'
import type { Executor } from '@gantry/core'
import type { AdmittedCall } from '../../storage/calls/call-store.ts'
import { type NeededTool, needOf } from '../../storage/calls/need.ts'

/** A tool that a call needs and that this worker does not have, as the call was admitted for it. */
export interface MissingTool {
  readonly need: string
  readonly error: ToolError
}

/** The first tool that a call needs and the executor does not have; undefined when the call can run here. */
export async function missingTool(
  { missing }: Pick<Executor, 'missing'>,
  call: Pick<AdmittedCall, 'kind' | 'tool' | 'digest'>,
): Promise<MissingTool | undefined> {
  for (const needed of neededTools(call)) {
    const error = await missing(needed.tool, needed.digest)
    if (error !== undefined) return { need: needOf(needed), error }
  }
  return undefined
}

/**
 * A call needs its tool as it was admitted. A program runs as its tool is defined where it runs, and a chain needs the
 * tools of its steps that were there when it was admitted: of others a step says itself that they are not there.
 */
function neededTools({ kind, tool, digest }: Pick<AdmittedCall, 'kind' | 'tool' | 'digest'>): readonly NeededTool[] {
  if (kind === 'call') return [digest === undefined ? { tool } : { tool, digest }]
  if (kind === 'code') return [{ tool: tool.split(':').slice(0, 2).join(':') }]
  return digest === undefined ? [] : (JSON.parse(digest) as string[]).map((step) => ({ tool: step }))
}
