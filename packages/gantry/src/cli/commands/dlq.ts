import type { DeadLetter } from '@gantry/client'
import type { Command } from '../io.ts'
import { factsText, moreText, printJson, tableText } from '../print.ts'
import { withService } from '../session.ts'
import { safeJson, safeLine } from '../terminal.ts'

/** Lists the dead letters of a service, newest first. */
export const listDeadLetters: Command = ({ options }, io) =>
  withService(options, io, async (client) => {
    const { limit, cursor, json } = options
    const page = await client.deadLetters.list({ limit, cursor, signal: io.signal })
    if (json === true) await printJson(page, io)
    else if (page.items.length === 0) await io.out('No dead letters.\n')
    else {
      const rows = page.items.map((deadLetter) => {
        const { id, tool, code, createdAt, reason } = deadLetter
        return [id, deadLetterState(deadLetter), tool, code, createdAt, reason]
      })
      await io.out(
        tableText(['letter', 'state', 'tool', 'code', 'created', 'reason'], rows, io) + moreText(page.cursor),
      )
    }
    return 0
  })

export function deadLetterState({ redriven, discarded }: DeadLetter): string {
  if (redriven !== undefined) return 'redriven'
  return discarded === undefined ? 'waits' : 'discarded'
}

/** Shows one dead letter with its payload. */
export const showDeadLetter: Command = ({ operands: [id = ''], options }, io) =>
  withService(options, io, async (client) => {
    const deadLetter = await client.deadLetters.get(id, { signal: io.signal })
    if (options.json === true) await printJson(deadLetter, io)
    else await io.out(deadLetterText(deadLetter))
    return 0
  })

function deadLetterText(deadLetter: DeadLetter): string {
  const { id, callId, source, tool, code, reason, deliveries, createdAt, redriven, discarded, payload } = deadLetter
  const facts = {
    letter: id,
    state: deadLetterState(deadLetter),
    call: callId,
    from: source,
    tool,
    code,
    reason,
    deliveries,
  }
  const later = { redriven: redriven && `${redriven.at} by ${redriven.by} as ${redriven.callId}` }
  const aside = { discarded: discarded && `${discarded.at} by ${discarded.by}` }
  const lines = factsText({ ...facts, created: createdAt, ...later, ...aside })
  return payload === undefined ? lines : `${lines}${safeJson(payload, 2)}\n`
}

/** Submits the call of a dead letter again. */
export const redriveDeadLetter: Command = ({ operands: [id = ''], options }, io) =>
  withService(options, io, async (client) => {
    const redriven = await client.deadLetters.redrive(id, { signal: io.signal })
    const callId = safeLine(redriven.callId)
    if (options.json === true) await printJson(redriven, io)
    else if (id.startsWith('callback-')) await io.out(`The callback of ${callId} is sent again.\n`)
    else await io.out(`Submitted again as ${callId}; gantry call ${callId} --follow shows how it goes.\n`)
    return 0
  })

/** Discards a dead letter. */
export const discardDeadLetter: Command = ({ operands: [id = ''], options }, io) =>
  withService(options, io, async (client) => {
    await client.deadLetters.discard(id, { signal: io.signal })
    if (options.json === true) await printJson({ discarded: id }, io)
    else await io.out(`Discarded ${safeLine(id)}.\n`)
    return 0
  })
