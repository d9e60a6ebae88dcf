import type { Command } from '../io.ts'
import { printJson } from '../print.ts'
import { withService } from '../session.ts'
import { safeLine } from '../terminal.ts'

/** Hands the call of a dead letter in again. */
export const execute: Command = ({ operands: [id = ''], options }, io) =>
  withService(options, io, async (client) => {
    const redriven = await client.deadLetters.redrive(id, { signal: io.signal })
    const callId = safeLine(redriven.callId)
    if (options.json === true) await printJson(redriven, io)
    else if (id.startsWith('callback-')) await io.out(`The callback of ${callId} is sent again.\n`)
    else await io.out(`Handed in again as ${callId}; gantry call ${callId} --follow shows how it goes.\n`)
    return 0
  })
