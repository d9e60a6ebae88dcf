import type { DeadLetter } from '@gantry/client'
import type { Command } from '../io.ts'
import { printJson } from '../print.ts'
import { withService } from '../session.ts'
import { factsText } from '../table.ts'
import { safeJson } from '../terminal.ts'
import { letterState } from './dlq-ls.ts'

/** Shows one dead letter with what was asked for. */
export const execute: Command = ({ operands: [id = ''], options }, io) =>
  withService(options, io, async (client) => {
    const letter = await client.deadLetters.get(id, { signal: io.signal })
    if (options.json === true) await printJson(letter, io)
    else await io.out(letterText(letter))
    return 0
  })

function letterText(letter: DeadLetter): string {
  const { id, callId, source, tool, code, reason, deliveries, createdAt, redriven, discarded, payload } = letter
  const facts = { letter: id, state: letterState(letter), call: callId, from: source, tool, code, reason, deliveries }
  const later = { redriven: redriven && `${redriven.at} by ${redriven.by} as ${redriven.callId}` }
  const aside = { discarded: discarded && `${discarded.at} by ${discarded.by}` }
  const lines = factsText({ ...facts, created: createdAt, ...later, ...aside })
  return payload === undefined ? lines : `${lines}${safeJson(payload, 2)}\n`
}
