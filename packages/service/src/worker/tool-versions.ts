import type { ToolError } from '@gantry/contract'
import type { Executor } from '@gantry/core'
import type { AdmittedCall } from '../storage/calls/call-store.ts'
import { type NeededTool, needLabel, needOf, readNeed } from '../storage/calls/needed-tools.ts'

/** The tools that this worker has among those that calls wait for. */
export interface ToolOffers {
  /** The labels under which calls that need them can be claimed. */
  readonly labels: { readonly [label: string]: string }
  /** Which of the needs this worker can meet now; its labels are those from here on. */
  look(wanted: readonly string[]): Promise<readonly string[]>
}

/** A worker of a fleet in which all have the same tools is never asked, and has no labels. */
export function createToolOffers(snapshots: {
  readonly current: { readonly executor: Pick<Executor, 'missing'> }
}): ToolOffers {
  let labels: ToolOffers['labels'] = {}
  return {
    get labels() {
      return labels
    },
    async look(wanted) {
      const lacks = await Promise.all(
        wanted.map(async (need) => {
          const { tool, digest } = readNeed(need)
          return snapshots.current.executor.missing(tool, digest)
        }),
      )
      const here = wanted.filter((_, index) => lacks[index] === undefined)
      labels = Object.fromEntries(here.map((need) => [needLabel(need), '']))
      return here
    },
  }
}

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
