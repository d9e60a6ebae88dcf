import type { Page, ToolDoc } from '@gantry/core'
import type { Filter } from '../caller.ts'
import type { Command, Io } from '../io.ts'
import type { OptionValues } from '../option-table.ts'
import { printJson } from '../print.ts'
import { withCaller } from '../session.ts'
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

/** Explains one tool. */
export const describeTool: Command = ({ operands: [tool = ''], options }, io) =>
  withCaller(options, io, async (caller) => {
    const { level = 'schema', 'max-tokens': maxTokens } = options
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
