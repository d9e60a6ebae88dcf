import { randomBytes } from 'node:crypto'
import { mkdir, rename, rm, writeFile } from 'node:fs/promises'
import { userInfo } from 'node:os'
import { dirname, join } from 'node:path'
import { ToolError } from '@gantry/contract'
import type { QuarantinedTool } from '@gantry/core'
import { diffText } from '@gantry/core/internal/pins/definition'
import { readBoundedFile } from '@gantry/service/internal/config/bounded-file'
import { usageError } from '../errors.ts'
import type { Command, Io } from '../io.ts'
import { printJson } from '../print.ts'
import { withSources } from '../session.ts'
import { safeLine } from '../terminal.ts'

/** Shows what is different about tools that may not be called any more, and remembers what it showed. */
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

/** What is different about a tool, for a person. */
export function difference({ id, backend, reason, differences }: QuarantinedTool): string {
  return `${safeLine(id)} of ${safeLine(backend)} ${reasons[reason]}:\n${diffText(differences)}\n`
}

/** Enough of a hash that definitions made to collide still differ. */
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
 * Trusts tools as a person saw them: the server was asked anew since then, and may have answered something else.
 * - `id@hash` trusts the definition of that hash, `id` the one that was shown last.
 * - Where none was ever shown, it is shown now, and what is trusted is what was shown.
 * All of them are looked for and compared before any is approved.
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
 * Which definition of each tool a person was shown last, id to hash. It is kept from one command to the next in
 * `shown.json` of Gantry's data folder; a file that cannot be understood counts as nothing shown.
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

/** Remembers what was shown just now. Two commands at once may forget what the other showed; that is safe, if a bother. */
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
