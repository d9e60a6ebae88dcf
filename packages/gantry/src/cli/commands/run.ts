import type { OnCircuitOpen, Result } from '@gantry/contract'
import type { CallSettings } from '../caller.ts'
import type { Command, Io } from '../io.ts'
import { readJson } from '../json-operand.ts'
import type { OptionValues } from '../option-table.ts'
import { createProgress, printEvents, printOutcome } from '../print.ts'
import { withCaller } from '../session.ts'

/** Runs a tool to its end; what it reports on the way goes to stderr. */
export const runTool: Command = async ({ operands: [tool = '', text], options }, io) => {
  const args = text === undefined ? {} : await readJson('<json>', text, io)
  return withCaller(options, io, async (caller) => {
    const progress = createProgress(io, options)
    let result: Result | undefined
    for await (const event of caller.stream(tool, args, callSettings(options, io))) {
      if (event.kind === 'done' || event.kind === 'error') result = event.result
      else progress.report(event)
    }
    progress.clear()
    if (result === undefined) throw new Error('The stream ended without a result.')
    return printOutcome(result, options.json, io)
  })
}

/** How the command line changes a call. */
export function callSettings(options: OptionValues, { signal }: Io): CallSettings {
  const { timeout, 'idempotency-key': key, 'on-circuit-open': onOpen, backend } = options
  return {
    ...(timeout === undefined ? {} : { timeoutMs: timeout }),
    ...(key === undefined ? {} : { idempotencyKey: key }),
    ...(backend === undefined ? {} : { backend }),
    ...(onOpen === undefined ? {} : { onCircuitOpen: onOpen as OnCircuitOpen }),
    signal,
  }
}

/** Runs a tool and prints what happens as it happens; a slow reader slows the tool. */
export const streamTool: Command = async ({ operands: [tool = '', text], options }, io) => {
  const args = text === undefined ? {} : await readJson('<json>', text, io)
  return withCaller(options, io, (caller) =>
    printEvents(caller.stream(tool, args, callSettings(options, io)), options, io),
  )
}
