import { filterOf, listText } from '../find.ts'
import type { Command } from '../io.ts'
import { printJson } from '../print.ts'
import { withCaller } from '../session.ts'
import { safeLine } from '../terminal.ts'

/** Finds tools by words, best first. */
export const execute: Command = ({ operands, options }, io) =>
  withCaller(options, io, async (caller) => {
    const page = await caller.search(operands.join(' '), filterOf(options), io.signal)
    if (page.warning !== undefined) io.err(`warning: ${safeLine(page.warning.message)}\n`)
    if (options.json === true) await printJson(page, io)
    else await io.out(listText(page, io))
    return 0
  })
