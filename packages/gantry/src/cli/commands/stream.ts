import type { Command } from '../io.ts'
import { readJson } from '../json-operand.ts'
import { printEvents } from '../print-events.ts'
import { withCaller } from '../session.ts'
import { callSettings } from './run.ts'

/** Runs a tool and prints what happens as it happens; a slow reader slows the tool. */
export const execute: Command = async ({ operands: [tool = '', text], options }, io) => {
  const args = text === undefined ? {} : await readJson('<json>', text, io)
  return withCaller(options, io, (caller) =>
    printEvents(caller.stream(tool, args, callSettings(options, io)), options, io),
  )
}
