import type { Command } from '../io.ts'
import { printJson } from '../print.ts'
import { withService } from '../session.ts'
import { safeLine } from '../terminal.ts'
import { findCircuit } from './circuits-show.ts'

/** Closes a circuit breaker, so that calls go through again. */
export const execute: Command = ({ operands: [name = ''], options }, io) =>
  withService(options, io, async (client) => {
    const { signal } = io
    // A circuit that only another process knows is not listed, and is reset by its full name.
    const key = (await findCircuit(client, name, signal))?.key ?? name
    const { reset } = await client.resetCircuit(key, { tenant: options.tenant, signal })
    if (options.json === true) await printJson({ key, reset }, io)
    else await io.out(reset ? `Closed ${safeLine(key)}.\n` : `${safeLine(key)} was closed already.\n`)
    return 0
  })
