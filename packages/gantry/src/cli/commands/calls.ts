import type { Command } from '../io.ts'
import { printJson } from '../print.ts'
import { withService } from '../session.ts'
import { moreText, tableText } from '../table.ts'

/** Lists the calls of a service, newest first. */
export const execute: Command = ({ options }, io) =>
  withService(options, io, async (client) => {
    const { state, tool, limit, cursor, json } = options
    const page = await client.list({ state, tool, limit, cursor, signal: io.signal })
    if (json === true) await printJson(page, io)
    else if (page.items.length === 0) await io.out('No calls.\n')
    else {
      const rows = page.items.map((call) => [call.callId, call.state, call.tool, call.createdAt, call.principal])
      await io.out(tableText(['call', 'state', 'tool', 'created', 'by'], rows, io) + moreText(page.cursor))
    }
    return 0
  })
