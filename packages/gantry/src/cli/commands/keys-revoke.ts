import type { Command } from '../io.ts'
import { printJson } from '../print.ts'
import { withService } from '../session.ts'
import { safeLine } from '../terminal.ts'

/** Ends a key at once, and with --cancel-calls the calls of its principal that nobody works on. */
export const execute: Command = ({ operands: [id = ''], options }, io) =>
  withService(options, io, async (client) => {
    const key = await client.keys.revoke(id, { cancelCalls: options['cancel-calls'] === true, signal: io.signal })
    if (options.json === true) await printJson(key, io)
    else await io.out(`Revoked ${safeLine(key.id)} (${safeLine(key.name)}).\n`)
    return 0
  })
