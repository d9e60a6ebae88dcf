import type { Result, StreamEvent } from '@gantry/contract'
import { errorText, exitCodeOf } from './errors.ts'
import type { Io } from './io.ts'
import type { OptionValues } from './option-table.ts'
import { printJson, printOutcome } from './print.ts'
import { createProgress } from './progress.ts'
import { safeBlock, safeJson } from './terminal.ts'

/** Prints what happens as it happens, and answers with the exit code of the end; a slow reader slows the events. */
export async function printEvents(events: AsyncIterable<StreamEvent>, options: OptionValues, io: Io): Promise<number> {
  const progress = createProgress(io, options)
  let code = 0
  let chunks = 0
  for await (const event of events) {
    const end = event.kind === 'done' || event.kind === 'error' ? event.result : undefined
    if (event.kind === 'done' || event.kind === 'error') progress.clear()
    else progress.report(event)
    if (options.json === true) {
      await printJson(event, io)
      if (end !== undefined) code = exitCodeOf(end)
      if (end?.error !== undefined) io.err(errorText(end.error))
    } else if (event.kind === 'chunk') {
      progress.clear()
      chunks += 1
      await io.out(chunkText(event))
    } else if (end !== undefined) code = await printOutcome(chunks > 0 ? withoutRepeat(end) : end, false, io)
  }
  return code
}

function chunkText({ data }: Extract<StreamEvent, { kind: 'chunk' }>): string {
  return typeof data === 'string' ? `${safeBlock(data)}\n` : `${safeJson(data)}\n`
}

/** The output of a generator that returns nothing is its chunks again: a list, or one text. */
function withoutRepeat(result: Result): Result {
  return Array.isArray(result.output) || typeof result.output === 'string' ? { ...result, output: null } : result
}
