import { randomBytes } from 'node:crypto'
import { mkdir, rename, rm, writeFile } from 'node:fs/promises'
import { userInfo } from 'node:os'
import { dirname, join } from 'node:path'
import { ToolError } from '@gantry/contract'
import type { Page, QuarantinedTool, ToolDoc } from '@gantry/core'
import { diffText } from '@gantry/core/internal/pins/definition'
import { readBoundedFile } from '@gantry/service/internal/config/bounded-file'
import type { Filter } from '../caller.ts'
import { usageError } from '../errors.ts'
import type { Command, Io } from '../io.ts'
import type { OptionValues } from '../option-table.ts'
import { printJson } from '../print.ts'
import { withCaller, withSources } from '../session.ts'
import { clip, safeBlock, safeJson, safeLine } from '../terminal.ts'

/** Lists tools by id. */
export const listTools: Command = ({ options }, io) =>
  withCaller(options, io, async (caller) => {
    const page = await caller.tools({ ...filterOf(options), allVersions: options['all-versions'] === true })
    if (options.json === true) await printJson(page, io)
    else await io.out(listText(page, io))
    return 0
  })

/** Finds tools by words, best first. */
export const searchTools: Command = ({ operands, options }, io) =>
  withCaller(options, io, async (caller) => {
    const page = await caller.search(operands.join(' '), filterOf(options), io.signal)
    if (page.warning !== undefined) io.err(`warning: ${safeLine(page.warning.message)}\n`)
    if (options.json === true) await printJson(page, io)
    else await io.out(listText(page, io))
    return 0
  })

/** Describes one tool. */
export const describeTool: Command = ({ operands: [tool = ''], options }, io) =>
  withCaller(options, io, async (caller) => {
    const { 'max-tokens': maxTokens } = options
    const level = detailOf(options)
    const doc = await caller.describe(tool, { level, ...(maxTokens === undefined ? {} : { maxTokens }) })
    if (options.json === true) await printJson(doc, io)
    else await io.out(docText(doc))
    return 0
  })

/** Name, version and summary, then each part under its own name. An id without a version beside it may hold its own. */
export function docText(doc: ToolDoc & { readonly version?: string }): string {
  const { id, version, title, summary, omitted, ...parts } = doc
  const name = version === undefined ? id : `${id} ${version}`
  const lines = [safeLine(title === undefined ? name : `${name} – ${title}`), safeLine(summary), '']
  for (const [part, value] of Object.entries(parts)) lines.push(...partLines(part, value))
  if (omitted.length > 0) lines.push(`left out to fit: ${omitted.join(', ')}`)
  return `${lines.join('\n')}\n`
}

function partLines(name: string, value: unknown): string[] {
  if (name === 'docs' || name === 'description' || name === 'declaration') return [`${name}:`, safeBlock(String(value))]
  if (typeof value === 'string') return [`${name}: ${safeLine(value)}`]
  const plainList = Array.isArray(value) && value.every((item) => typeof item === 'string')
  if (plainList) return [`${name}: ${safeLine(value.join(', '))}`]
  return [`${name}:`, safeJson(value, 2)]
}

/** The options that `tools` and `search` share. */
export function filterOf({ namespace, tag, limit, cursor }: OptionValues): Filter {
  return {
    ...(namespace === undefined ? {} : { namespace }),
    ...(tag === undefined ? {} : { tag: tag.at(-1) ?? '' }),
    ...(limit === undefined ? {} : { limit }),
    ...(cursor === undefined ? {} : { cursor }),
  }
}

interface Listed {
  readonly id: string
  readonly version: string
  readonly description: string
}

/** A page for a person: a line for each tool, cut to the window when there is one. */
export function listText({ items, cursor }: Page<Listed>, io: Io): string {
  if (items.length === 0) return 'No tools.\n'
  const names = items.map(({ id, version }) => safeLine(`${id} ${version}`))
  const width = Math.max(...names.map((name) => name.length))
  const lines = items.map(({ description }, index) => {
    const line = `${(names[index] ?? '').padEnd(width)}  ${safeLine(description)}`
    return io.watched ? clip(line, io.columns) : line
  })
  if (cursor !== undefined) lines.push(`More: --cursor ${safeLine(cursor)}`)
  return `${lines.join('\n')}\n`
}

/** Prints the changes of quarantined tools, and records which definitions were shown. */
export const diffTools: Command = ({ operands: [id], options }, io) =>
  withSources(options, io, async (gantry, { data }) => {
    const held = gantry.quarantine.list().filter((tool) => id === undefined || tool.id === id)
    if (id !== undefined && held.length === 0) throw notHeld(id)
    if (options.json === true) await printJson({ items: held }, io)
    else await io.out(held.length === 0 ? 'No tool is in quarantine.\n' : held.map(text).join('\n'))
    await rememberShown(data, held, io)
    return 0
  })

const reasons: { readonly [Reason in QuarantinedTool['reason']]: string } = {
  changed: 'is not what was approved',
  renamed: 'was never approved, an older tool has gone, and it may be that one under another name',
}

function text(tool: QuarantinedTool): string {
  return `${difference(tool)}To trust exactly this: gantry tools approve ${safeLine(tool.id)}@${shortHash(tool)}\n`
}

/** The changes of a tool, as text. */
export function difference({ id, backend, reason, differences }: QuarantinedTool): string {
  return `${safeLine(id)} of ${safeLine(backend)} ${reasons[reason]}:\n${diffText(differences)}\n`
}

/** A prefix of the hash that is long enough to resist deliberate collisions. */
export function shortHash({ hash }: QuarantinedTool): string {
  return hash.slice(0, 16)
}

export function notHeld(id: string): ToolError {
  return new ToolError(
    'TOOL_NOT_FOUND',
    `${safeLine(id)} is not in quarantine; gantry tools diff lists those that are.`,
  )
}

/**
 * Approves tools as the user saw them. Discovery has run again since then and may have found another definition.
 * - `id@hash` approves the definition of that hash, `id` the definition that was last shown.
 * - A definition that was never shown is printed now, and approved exactly as printed.
 * All tools are found and compared before any is approved.
 */
export const approveTools: Command = ({ operands, options }, io) =>
  withSources(options, io, async (gantry, { data }) => {
    const wanted = operands.map(readOperand)
    const held = new Map(gantry.quarantine.list().map((tool) => [tool.id, tool]))
    const shown = readShown(data)
    const choices = wanted.map(({ id, prefix = shown.get(id) }) => {
      const tool = held.get(id)
      if (tool === undefined) throw notHeld(id)
      if (prefix !== undefined && !tool.hash.startsWith(prefix)) throw changed(id)
      return { tool, unseen: prefix === undefined }
    })
    const unseen = choices.filter((choice) => choice.unseen).map(({ tool }) => tool)
    const text = unseen.map((tool) => `This was not shown before. ${difference(tool)}`).join('')
    if (options.json === true) io.err(text)
    else await io.out(text)
    await rememberShown(data, unseen, io)
    for (const { tool } of choices) {
      await gantry.quarantine.approve(tool.id, { hash: tool.hash, by: userInfo().username, signal: io.signal })
    }
    if (options.json === true) await printJson({ approved: choices.map(({ tool }) => tool.id) }, io)
    else await io.out(choices.map(({ tool, unseen }) => approved(tool, unseen)).join(''))
    return 0
  })

interface Wanted {
  readonly id: string
  readonly prefix?: string
}

function readOperand(operand: string): Wanted {
  const at = operand.indexOf('@')
  if (at < 0) return { id: operand }
  const prefix = operand.slice(at + 1).toLowerCase()
  if (/^[0-9a-f]{12,64}$/.test(prefix)) return { id: operand.slice(0, at), prefix }
  throw usageError('tool', `What follows @ in ${safeLine(operand)} must be at least 12 digits of the hash.`)
}

function approved(tool: QuarantinedTool, unseen: boolean): string {
  return `Approved ${safeLine(tool.id)}${unseen ? ' exactly as shown above' : ''} (${shortHash(tool)}).\n`
}

function changed(id: string): ToolError {
  const name = safeLine(id)
  const text = `${name} changed since you looked; see gantry tools diff ${name}.`
  return new ToolError('CATALOG_STALE', text, { stage: 'admit' })
}

const mostBytes = 4 * 1024 * 1024
const mostTools = 10_000

/**
 * The definition of each tool that was last shown to the user, id to hash. It is stored in `shown.json` of Gantry's
 * data folder; an unreadable file counts as empty.
 */
export function readShown(folder: string | undefined): ReadonlyMap<string, string> {
  if (folder === undefined) return new Map()
  try {
    const file = readBoundedFile(fileIn(folder), mostBytes)
    if (file.state !== 'read') return new Map()
    const { version, shown } = JSON.parse(file.text)
    if (version !== 1 || typeof shown !== 'object') return new Map()
    return new Map(Object.entries<unknown>(shown).filter((entry): entry is [string, string] => isHash(entry[1])))
  } catch {
    return new Map()
  }
}

/** Records the shown definitions. Of two concurrent commands one record may be lost; its tools are then shown again. */
export async function rememberShown(
  folder: string | undefined,
  tools: readonly Pick<QuarantinedTool, 'id' | 'hash'>[],
  io: Io,
): Promise<void> {
  if (folder === undefined || tools.length === 0) return
  const shown = new Map(readShown(folder))
  for (const { id, hash } of tools) {
    shown.delete(id)
    shown.set(id, hash)
  }
  const newest = [...shown].slice(-mostTools)
  const text = JSON.stringify({ version: 1, shown: Object.fromEntries(newest) }, undefined, 2)
  try {
    await replace(fileIn(folder), `${text}\n`)
  } catch (error) {
    io.err(`warning: what was shown cannot be remembered: ${safeLine(String(error))}\n`)
  }
}

async function replace(file: string, text: string): Promise<void> {
  await mkdir(dirname(file), { recursive: true, mode: 0o700 })
  const draft = `${file}.${randomBytes(6).toString('hex')}.tmp`
  try {
    await writeFile(draft, text, { flag: 'wx', mode: 0o600, flush: true })
    await rename(draft, file)
  } catch (error) {
    await rm(draft, { force: true })
    throw error
  }
}

function fileIn(folder: string): string {
  return join(folder, 'shown.json')
}

function isHash(value: unknown): boolean {
  return typeof value === 'string' && /^[0-9a-f]{64}$/.test(value)
}

const details = ['summary', 'types', 'schema', 'full'] as const

/** The level of detail; the levels of log lines are for another command. */
function detailOf({ level = 'schema' }: OptionValues): (typeof details)[number] {
  const known = details.find((each) => each === level)
  if (known !== undefined) return known
  throw usageError('--level', `--level of gantry describe takes ${details.join(', ')}, not ${level}.`)
}
