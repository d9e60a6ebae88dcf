import type { CallView, Replay } from '@gantry/client'
import { errorText } from '../errors.ts'
import type { Command, Io } from '../io.ts'
import { factsText, moreText, printEvents, printJson, tableText } from '../print.ts'
import { withService } from '../session.ts'
import { safeLine, safeValue } from '../terminal.ts'

/** Lists the calls of a service, newest first. */
export const listCalls: Command = ({ options }, io) =>
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

/** Shows where a call stands, or follows it to its end; leaving it leaves the call alone. */
export const showCall: Command = ({ operands: [id = ''], options }, io) =>
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

/** Tells a call to end. */
export const cancelCall: Command = ({ operands: [id = ''], options }, io) =>
  withService(options, io, async (client) => {
    const view = await client.cancel(id, { signal: io.signal })
    if (options.json === true) await printJson(view, io)
    else await io.out(`${safeLine(view.callId)} ${fateOf(view)}\n`)
    return 0
  })

function fateOf({ state, finishedAt }: CallView): string {
  if (finishedAt === undefined) return 'is asked to cancel.'
  return state === 'cancelled' ? 'is cancelled.' : `had ended already: ${state}.`
}

/** Runs a call of the service again without its tools, and shows what would be different; exit code 1 when something would. */
export const replayCall: Command = ({ operands: [id = ''], options }, io) =>
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
