import type { Command } from '../io.ts'
import { printJson } from '../print.ts'
import { withService } from '../session.ts'
import { safeLine } from '../terminal.ts'

/** Lays a dead letter aside for good. */
export const execute: Command = ({ operands: [id = ''], options }, io) =>
  withService(options, io, async (client) => {
    await client.deadLetters.discard(id, { signal: io.signal })
    if (options.json === true) await printJson({ discarded: id }, io)
    else await io.out(`Discarded ${safeLine(id)}.\n`)
    return 0
  })
