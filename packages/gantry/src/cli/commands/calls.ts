import type { CallView, Client, DeadLetter, Replay } from '@gantry/client'
import { type ErrorInfo, type StepResult, type StreamEvent, ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { errorText } from '../errors.ts'
import type { Command, Io } from '../io.ts'
import { factsText, moreText, printEvents, printJson, tableText } from '../print.ts'
import { withService } from '../session.ts'
import { clip, safeJson, safeLine, safeValue } from '../terminal.ts'

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

/** Shows the state of a call, or follows it to its end; an abort ends the command and not the call. */
export const showCall: Command = ({ operands: [id = ''], options }, io) =>
  withService(options, io, async (client) => {
    const { signal } = io
    if (options.follow === true) return printEvents(client.events(id, { signal }), options, io)
    const view = await client.get(id, { signal, args: true })
    const thrownAt = await placeOf(client, view, signal)
    const logs = view.result === undefined ? (view.recent ?? []) : await logsOf(client, view, signal)
    if (options.json === true) await printJson({ ...view, ...(thrownAt === undefined ? {} : { thrownAt }), logs }, io)
    else await io.out(viewText(view, thrownAt, logs))
    return 0
  })

/** Where the tool threw, by the audit entry of the end; undefined for callers without gantry:audit. */
async function placeOf(client: Client, { callId, result }: CallView, signal: AbortSignal): Promise<string | undefined> {
  if (result?.error?.exception !== true) return undefined
  try {
    const { items } = await client.audit.list({ call: callId, phase: 'end', limit: 10, signal })
    const places = items.map(({ details }) => (isObject(details) ? details.thrownAt : undefined))
    return places.find((place) => typeof place === 'string')
  } catch (error) {
    if (ToolError.is(error) && error.code === 'DENIED') return undefined
    throw error
  }
}

const mostLogs = 200

/** The log lines that the tool wrote during the call, the newest of many. */
async function logsOf(client: Client, { callId }: CallView, signal: AbortSignal): Promise<readonly StreamEvent[]> {
  const logs: StreamEvent[] = []
  for await (const event of client.events(callId, { signal })) {
    if (event.kind !== 'log') continue
    logs.push(event)
    if (logs.length > mostLogs) logs.shift()
  }
  return logs
}

const longestArgs = 4_000

function viewText(view: CallView, thrownAt: string | undefined, logs: readonly StreamEvent[]): string {
  const { callId, tool, state, principal, createdAt, startedAt, finishedAt, attempts, args, result } = view
  const facts = { call: callId, tool, state, by: principal, created: createdAt, started: startedAt }
  const given = args === undefined ? undefined : clip(safeJson(args), longestArgs)
  const runtime = result !== undefined && 'runtime' in result ? result.runtime : undefined
  const lines = factsText({
    ...facts,
    finished: finishedAt,
    deliveries: attempts,
    attempts: result !== undefined && 'attempts' in result ? result.attempts : undefined,
    runtime: runtime && `${runtime.kind} (${runtime.isolation})`,
    'ended in stage': result?.error && stageText(result.error.stage),
    'thrown at': thrownAt,
    arguments: given,
  })
  const steps = result !== undefined && 'steps' in result ? result.steps.map(stepText).join('') : ''
  const logged = logs.map(logText).join('')
  if (result === undefined) return `${lines}${logged}`
  const warned = 'warnings' in result ? result.warnings : []
  const warnings = warned.map(({ code, message }) => `warning: ${safeLine(`${code}: ${message}`)}\n`)
  const failure = result.error === undefined ? '' : `${errorText(result.error)}${nextText(callId, result.error)}`
  const output = result.output === null ? '' : `${safeValue(result.output)}\n`
  return `${lines}${steps}${logged}${warnings.join('')}${failure}${output}`
}

/** In their order, as docs/pipeline.md has them. */
const stages = ['lookup', 'validate-input', 'authorize', 'resolve', 'execute', 'normalize', 'validate-output']

/** The stage that failed, and those that passed before it. */
function stageText(stage: string): string {
  const passed = stages.slice(0, Math.max(0, stages.indexOf(stage)))
  return passed.length === 0 ? stage : `${stage}, after ${passed.join(', ')}`
}

function stepText({ id, state, error }: StepResult): string {
  const code = error === undefined ? '' : ` ${error.code}: ${error.message}`
  return `  ${safeLine(`step ${id} ${state}${code}`)}\n`
}

function logText(event: StreamEvent): string {
  if (event.kind !== 'log') return ''
  const data = event.data === undefined ? '' : ` ${safeJson(event.data)}`
  return `  ${event.level}: ${safeLine(event.message)}${data}\n`
}

/** Where to look next for the cause of a failure. */
function nextText(callId: string, { exception }: ErrorInfo): string {
  const id = safeLine(callId)
  const stack =
    exception === true ? `The stack is in the log of the service: the line "tool threw" with task_id ${id}.\n` : ''
  return `${stack}gantry audit ls --call ${id} shows who decided what; gantry calls replay ${id} tries it again without its tools.\n`
}

/** Cancels a call. */
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

/** Replays a call of the service without running its tools and prints the differences; exit code 1 if there are any. */
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
    lines.push(
      `The replay diverges from the journal${where} (${safeLine(divergence.tool)}): ${safeLine(divergence.reason)}`,
    )
  }
  if (same) lines.push('No differences.')
  const rows = differences.map(({ path, before, after }) => [path, shown(before), shown(after)])
  return `${lines.join('\n')}\n${rows.length === 0 ? '' : tableText(['where', 'before', 'now'], rows, io)}`
}

const longest = 200

function shown(value: unknown): string {
  const text = value === undefined ? '(absent)' : JSON.stringify(value)
  return text.length <= longest ? text : `${text.slice(0, longest)}…`
}

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
