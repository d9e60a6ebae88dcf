import type { CallView } from '@gantry/client'
import type { Command } from '../io.ts'
import { printJson } from '../print.ts'
import { withService } from '../session.ts'
import { safeLine } from '../terminal.ts'

/** Tells a call to end. */
export const execute: Command = ({ operands: [id = ''], options }, io) =>
  withService(options, io, async (client) => {
    const view = await client.cancel(id, { signal: io.signal })
    if (options.json === true) await printJson(view, io)
    else await io.out(`${safeLine(view.callId)} ${fateOf(view)}\n`)
    return 0
  })

function fateOf({ state, finishedAt }: CallView): string {
  if (finishedAt === undefined) return 'is told to end.'
  return state === 'cancelled' ? 'is cancelled.' : `had ended already: ${state}.`
}
