import { filterOf, listText } from '../find.ts'
import type { Command } from '../io.ts'
import { printJson } from '../print.ts'
import { withCaller } from '../session.ts'

/** Lists tools by id. */
export const execute: Command = ({ options }, io) =>
  withCaller(options, io, async (caller) => {
    const page = await caller.tools({ ...filterOf(options), allVersions: options['all-versions'] === true })
    if (options.json === true) await printJson(page, io)
    else await io.out(listText(page, io))
    return 0
  })
