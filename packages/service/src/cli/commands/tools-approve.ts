import { userInfo } from 'node:os'
import type { Command } from '../io.ts'
import { printJson } from '../print.ts'
import { withSources } from '../session.ts'
import { safeLine } from '../terminal.ts'
import { notHeld } from './tools-diff.ts'

/** Trusts tools as they are now; all of them are looked for before any is approved. */
export const execute: Command = ({ operands, options }, io) =>
  withSources(options, io, async (gantry) => {
    const held = new Set(gantry.quarantine.list().map(({ id }) => id))
    const stranger = operands.find((id) => !held.has(id))
    if (stranger !== undefined) throw notHeld(stranger)
    for (const id of operands) await gantry.quarantine.approve(id, { by: userInfo().username, signal: io.signal })
    if (options.json === true) await printJson({ approved: operands }, io)
    else await io.out(operands.map((id) => `Approved ${safeLine(id)}.\n`).join(''))
    return 0
  })
