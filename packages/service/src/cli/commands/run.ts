import type { Result } from '@gantry/contract'
import type { RunOptions } from '@gantry/core'
import type { Command } from '../io.ts'
import { readJson } from '../json-operand.ts'
import type { OptionValues } from '../option-table.ts'
import { printOutcome } from '../print.ts'
import { createProgress } from '../progress.ts'
import { withExecutor } from '../session.ts'

/** Runs a tool to its end; what it reports on the way goes to stderr. */
export const execute: Command = async ({ operands: [tool = '', text], options }, io) => {
  const args = text === undefined ? {} : await readJson('<json>', text, io)
  return withExecutor(options, io, async (gantry) => {
    const progress = createProgress(io, options)
    let result: Result | undefined
    for await (const event of gantry.stream(tool, args, { ...callOptions(options), signal: io.signal })) {
      if (event.kind === 'done' || event.kind === 'error') result = event.result
      else progress.report(event)
    }
    progress.clear()
    if (result === undefined) throw new Error('The stream ended without a result.')
    return printOutcome(result, options.json, io)
  })
}

/** How the command line changes a call. */
export function callOptions(options: OptionValues): Pick<RunOptions, 'timeoutMs' | 'idempotencyKey' | 'backend'> {
  const { timeout, 'idempotency-key': key, backend } = options
  return {
    ...(timeout === undefined ? {} : { timeoutMs: timeout }),
    ...(key === undefined ? {} : { idempotencyKey: key }),
    ...(backend === undefined ? {} : { backend }),
  }
}
