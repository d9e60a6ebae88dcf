import type { DeadLetter } from '@gantry/client'
import type { Command } from '../io.ts'
import { printJson } from '../print.ts'
import { withService } from '../session.ts'
import { moreText, tableText } from '../table.ts'

/** Lists the dead letters of a service, newest first. */
export const execute: Command = ({ options }, io) =>
  withService(options, io, async (client) => {
    const { limit, cursor, json } = options
    const page = await client.deadLetters.list({ limit, cursor, signal: io.signal })
    if (json === true) await printJson(page, io)
    else if (page.items.length === 0) await io.out('No dead letters.\n')
    else {
      const rows = page.items.map((letter) => {
        const { id, tool, code, createdAt, reason } = letter
        return [id, letterState(letter), tool, code, createdAt, reason]
      })
      await io.out(
        tableText(['letter', 'state', 'tool', 'code', 'created', 'reason'], rows, io) + moreText(page.cursor),
      )
    }
    return 0
  })

export function letterState({ redriven, discarded }: DeadLetter): string {
  if (redriven !== undefined) return 'redriven'
  return discarded === undefined ? 'waits' : 'discarded'
}
