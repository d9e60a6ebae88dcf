import { existsSync } from 'node:fs'
import { open } from 'node:fs/promises'
import type { AuditView, Client } from '@gantry/client'
import { type Json, type StreamEvent, ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { isAbsent, readPrivate } from '@gantry/core/internal/files/private-file'
import { pause } from '@gantry/core/internal/resilience/retry'
import { logFileIn, previousLogFile } from '@gantry/service/internal/observe/log-file'
import { usageError } from '../errors.ts'
import { dataPlace } from '../find-service.ts'
import type { Command, Io } from '../io.ts'
import { type OptionValues, quoted } from '../option-table.ts'
import { printJson } from '../print.ts'
import { withService } from '../session.ts'
import { safeJson, safeLine } from '../terminal.ts'

/** One line, and where it is from: the service, the audit log, or the tool of a call. */
interface LogLine {
  readonly source: 'service' | 'audit' | 'tool'
  readonly time?: string
  readonly level: string
  readonly message: string
  readonly fields: { readonly [name: string]: unknown }
}

const levels: readonly string[] = ['debug', 'info', 'warn', 'error']
const defaultLimit = 200
const mostBytes = 67_108_864

/** Shows the log of the service that runs on the data folder, or what was recorded about one call. */
export const showLogs: Command = async ({ operands: [id], options }, io) => {
  const wanted = leastLevel(options)
  return id === undefined ? serviceLog(wanted, options, io) : callLog(id, wanted, options, io)
}

function leastLevel({ level = 'debug' }: OptionValues): string {
  if (levels.includes(level)) return level
  throw usageError('--level', `--level of gantry logs takes ${levels.join(', ')}, not ${quoted(level)}.`)
}

async function serviceLog(wanted: string, options: OptionValues, io: Io): Promise<number> {
  if (io.environment.GANTRY_URL) {
    const message = `The log of the service at ${io.environment.GANTRY_URL} is where it runs: on its stderr, and as service.log in its data folder. gantry logs <call> shows what it recorded about a call.`
    throw new ToolError('INPUT_INVALID', message, { stage: 'admit' })
  }
  const file = logFileIn(await dataPlace(options, io))
  const previous = previousLogFile(file)
  if (!existsSync(file) && !existsSync(previous)) {
    const why = 'no service has run on this data folder, or service.logFile is false'
    throw new ToolError('NOT_FOUND', `There is no log ${file}: ${why}.`, { stage: 'admit' })
  }
  const { text, end } = await readLog(file)
  const lines = `${await textOf(previous)}${text}`.split('\n').filter((line) => line !== '')
  const chosen = lines.map(parsedLine).filter((line) => isAtLeast(line, wanted))
  for (const line of chosen.slice(-(options.limit ?? defaultLimit))) await print(line, options, io)
  if (options.follow === true) await follow(file, end, (line) => isAtLeast(line, wanted), options, io)
  return 0
}

const lookEveryMs = 500

/** Prints lines as they are written, also after the file was replaced, until the signal aborts. */
async function follow(
  file: string,
  start: number,
  isWanted: (line: LogLine) => boolean,
  options: OptionValues,
  io: Io,
): Promise<void> {
  let at = start
  let rest = ''
  while (!io.signal.aborted) {
    const { text, end } = await readLog(file, at)
    at = end
    const lines = `${rest}${text}`.split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines.map(parsedLine).filter(isWanted)) await print(line, options, io)
    await pause(lookEveryMs, io.signal).catch(() => undefined)
  }
}

/** The text of the log from a position on, and its end. A file that is shorter than the position was replaced. */
async function readLog(file: string, from = 0): Promise<{ readonly text: string; readonly end: number }> {
  try {
    const handle = await open(file, 'r')
    try {
      const { size } = await handle.stat()
      const start = size < from ? 0 : from
      // The end of the replaced file is now that of its predecessor.
      const before = size < from ? (await bytesOf(previousLogFile(file))).subarray(from) : Buffer.alloc(0)
      const { buffer, bytesRead } = await handle.read(
        Buffer.alloc(Math.min(size - start, mostBytes)),
        0,
        undefined,
        start,
      )
      return { text: `${before}${buffer.subarray(0, bytesRead)}`, end: start + bytesRead }
    } finally {
      await handle.close()
    }
  } catch (error) {
    if (isAbsent(error)) return { text: '', end: from }
    throw error
  }
}

async function textOf(file: string): Promise<string> {
  return (await bytesOf(file)).toString()
}

async function bytesOf(file: string): Promise<Buffer> {
  try {
    const found = await readPrivate(file, mostBytes)
    return found.state === 'read' ? found.bytes : Buffer.alloc(0)
  } catch (error) {
    if (isAbsent(error)) return Buffer.alloc(0)
    throw error
  }
}

/** What the service recorded about a call: its audit entries, the log lines of its tool, and its lines in the log here. */
async function callLog(id: string, wanted: string, options: OptionValues, io: Io): Promise<number> {
  return withService(options, io, async (client) => {
    const call = await client.get(id, { signal: io.signal })
    const entries = await auditOf(client, id, io.signal)
    const shown = (line: LogLine): Promise<void> =>
      isAtLeast(line, wanted) ? print(line, options, io) : Promise.resolve()
    for (const line of entries.filter(({ fields }) => fields.phase !== 'end')) await shown(line)
    if (call.result !== undefined || options.follow === true) {
      for await (const event of client.events(id, { signal: io.signal })) await shownEvent(event, shown)
    } else for (const event of call.recent ?? []) await shownEvent(event, shown)
    for (const line of await linesOf(id, options, io)) await shown(line)
    const ends = options.follow === true ? await auditOf(client, id, io.signal) : entries
    for (const line of ends.filter(({ fields }) => fields.phase === 'end')) await shown(line)
    return 0
  })
}

async function shownEvent(event: StreamEvent, shown: (line: LogLine) => Promise<void>): Promise<void> {
  if (event.kind !== 'log') return
  const { level, message, data } = event
  await shown({ source: 'tool', level, message, fields: data === undefined ? {} : { data } })
}

const mostEntries = 200

/** The audit entries of a call, oldest first; none for callers without gantry:audit. */
async function auditOf(client: Client, call: string, signal: AbortSignal): Promise<readonly LogLine[]> {
  try {
    const { items } = await client.audit.list({ call, limit: mostEntries, signal })
    return items.map(auditLine).reverse()
  } catch (error) {
    if (ToolError.is(error) && error.code === 'DENIED') return []
    throw error
  }
}

function auditLine({ at, phase, tool, principal, callId, status, code, worker, details }: AuditView): LogLine {
  const fields = { phase, tool, principal, call: callId, status, code, worker, ...thrownAt(details) }
  const known = Object.entries(fields).filter(([, value]) => value !== undefined)
  const level = code === undefined ? 'info' : 'warn'
  return { source: 'audit', time: at, level, message: phase, fields: Object.fromEntries(known) }
}

function thrownAt(details: Json | undefined): { readonly thrownAt?: unknown } {
  return isObject(details) && details.thrownAt !== undefined ? { thrownAt: details.thrownAt } : {}
}

/** The lines about a call in the log of the data folder, which a service elsewhere does not write. */
async function linesOf(id: string, options: OptionValues, io: Io): Promise<readonly LogLine[]> {
  if (io.environment.GANTRY_URL) return []
  const file = logFileIn(await dataPlace(options, io))
  const text = `${await textOf(previousLogFile(file))}${await textOf(file)}`
  const lines = text.split('\n').filter((line) => line.includes(id))
  return lines.map(parsedLine).filter(({ fields }) => fields.task_id === id || fields.parent === id)
}

/** A line of the log. One that is not JSON is a message of its own. */
function parsedLine(line: string): LogLine {
  try {
    const value: unknown = JSON.parse(line)
    if (!isObject(value)) throw new Error('not an object')
    const { level, time, pid: _pid, msg, ...fields } = value
    return { source: 'service', time: String(time), level: String(level), message: String(msg), fields }
  } catch {
    return { source: 'service', level: 'info', message: line, fields: {} }
  }
}

/** An unknown level, such as fatal, is shown. */
function isAtLeast({ level }: LogLine, wanted: string): boolean {
  const rank = levels.indexOf(level)
  return rank === -1 || rank >= levels.indexOf(wanted)
}

async function print(line: LogLine, { json }: OptionValues, io: Io): Promise<void> {
  if (json === true) return printJson(line, io)
  // The message of an audit entry is its phase.
  const { stack, phase: _phase, ...fields } = line.fields
  const facts = Object.entries(fields).map(([name, value]) => `${name}=${plain(value)}`)
  const words = [line.time ?? '-', line.source, line.level, line.message, ...facts]
  const below = typeof stack === 'string' ? stack.split('\n').map((each) => `  ${safeLine(each)}\n`) : []
  await io.out(`${safeLine(words.join(' '))}\n${below.join('')}`)
}

function plain(value: unknown): string {
  return typeof value === 'string' ? value : safeJson(value)
}
