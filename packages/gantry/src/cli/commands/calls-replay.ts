import type { Replay } from '@gantry/client'
import type { Command, Io } from '../io.ts'
import { printJson } from '../print.ts'
import { withService } from '../session.ts'
import { tableText } from '../table.ts'
import { safeLine } from '../terminal.ts'

/** Runs a call of the service again without its tools, and shows what would be different; exit code 1 when something would. */
export const execute: Command = ({ operands: [id = ''], options }, io) =>
  withService(options, io, async (client) => {
    const replay = await client.replay(id, { signal: io.signal })
    if (options.json === true) await printJson(replay, io)
    else await io.out(textOf(replay, io))
    return replay.same ? 0 : 1
  })

function textOf({ tool, decision, same, differences, divergence, result, warnings }: Replay, io: Io): string {
  const lines = [`${safeLine(tool)} would be ${result.status} (policy: ${decision}); nothing was run.`]
  for (const { message } of warnings) lines.push(`warning: ${safeLine(message)}`)
  if (divergence !== undefined) {
    const where = divergence.step === undefined ? '' : ` at the step ${safeLine(divergence.step)}`
    lines.push(`It left the record${where} (${safeLine(divergence.tool)}): ${safeLine(divergence.reason)}`)
  }
  if (same) lines.push('Everything is the same.')
  const rows = differences.map(({ path, before, after }) => [path, shown(before), shown(after)])
  return `${lines.join('\n')}\n${rows.length === 0 ? '' : tableText(['where', 'before', 'now'], rows, io)}`
}

const longest = 200

function shown(value: unknown): string {
  const text = value === undefined ? '(absent)' : JSON.stringify(value)
  return text.length <= longest ? text : `${text.slice(0, longest)}…`
}
