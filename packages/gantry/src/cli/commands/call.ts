import type { CallView } from '@gantry/client'
import { errorText } from '../errors.ts'
import type { Command } from '../io.ts'
import { printJson } from '../print.ts'
import { printEvents } from '../print-events.ts'
import { withService } from '../session.ts'
import { factsText } from '../table.ts'
import { safeValue } from '../terminal.ts'

/** Shows where a call stands, or follows it to its end; leaving it leaves the call alone. */
export const execute: Command = ({ operands: [id = ''], options }, io) =>
  withService(options, io, async (client) => {
    const { signal } = io
    if (options.follow === true) return printEvents(client.events(id, { signal }), options, io)
    const view = await client.get(id, { signal })
    if (options.json === true) await printJson(view, io)
    else await io.out(viewText(view))
    return 0
  })

function viewText({ callId, tool, state, principal, createdAt, startedAt, finishedAt, attempts, result }: CallView) {
  const facts = { call: callId, tool, state, by: principal, created: createdAt, started: startedAt }
  const lines = factsText({ ...facts, finished: finishedAt, attempts })
  if (result === undefined) return lines
  const output = result.output === null ? '' : `${safeValue(result.output)}\n`
  return `${lines}${result.error === undefined ? '' : errorText(result.error)}${output}`
}
