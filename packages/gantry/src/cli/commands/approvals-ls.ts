import type { Command } from '../io.ts'
import { printJson } from '../print.ts'
import { withService } from '../session.ts'
import { moreText, tableText } from '../table.ts'

/** Lists the calls of a service that wait for a person, newest first. */
export const execute: Command = ({ options }, io) =>
  withService(options, io, async (client) => {
    const { limit, cursor, json, all } = options
    const state = all === true ? 'all' : 'open'
    const page = await client.approvals.list({ state, limit, cursor, signal: io.signal })
    if (json === true) await printJson(page, io)
    else if (page.items.length === 0) await io.out('No call waits for approval.\n')
    else {
      const rows = page.items.map(({ id, state, tool, principal, expiresAt, reason }) => {
        return [id, state, tool, principal, expiresAt, reason]
      })
      const head = ['approval', 'state', 'tool', 'caller', 'expires', 'reason']
      await io.out(tableText(head, rows, io) + moreText(page.cursor))
    }
    return 0
  })
