import { filterOf, listText } from '../find.ts'
import type { Command } from '../io.ts'
import { printJson } from '../print.ts'
import { withExecutor } from '../session.ts'
import { safeLine } from '../terminal.ts'

/** Finds tools by words, best first. */
export const execute: Command = ({ operands, options }, io) =>
  withExecutor(options, io, async (gantry) => {
    const page = await gantry.search(operands.join(' '), { ...filterOf(options), signal: io.signal })
    if (page.warning !== undefined) io.err(`warning: ${safeLine(page.warning.message)}\n`)
    if (options.json === true) await printJson(page, io)
    else await io.out(listText(page, io))
    return 0
  })
