import type { Result, StreamEvent } from '@gantry/contract'
import { errorText, exitCodeOf } from '../errors.ts'
import type { Command } from '../io.ts'
import { readJson } from '../json-operand.ts'
import { printJson, printOutcome } from '../print.ts'
import { createProgress } from '../progress.ts'
import { withExecutor } from '../session.ts'
import { safeBlock, safeJson } from '../terminal.ts'
import { callOptions } from './run.ts'

/** Runs a tool and prints what happens as it happens; a slow reader slows the tool. */
export const execute: Command = async ({ operands: [tool = '', text], options }, io) => {
  const args = text === undefined ? {} : await readJson('<json>', text, io)
  return withExecutor(options, io, async (gantry) => {
    const progress = createProgress(io, options)
    let code = 0
    let chunks = 0
    for await (const event of gantry.stream(tool, args, { ...callOptions(options), signal: io.signal })) {
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
  })
}

function chunkText({ data }: Extract<StreamEvent, { kind: 'chunk' }>): string {
  return typeof data === 'string' ? `${safeBlock(data)}\n` : `${safeJson(data)}\n`
}

/** The output of a generator that returns nothing is its chunks again: a list, or one text. */
function withoutRepeat(result: Result): Result {
  return Array.isArray(result.output) || typeof result.output === 'string' ? { ...result, output: null } : result
}
