import type { ToolDoc } from '@gantry/core'
import type { Command } from '../io.ts'
import { printJson } from '../print.ts'
import { withCaller } from '../session.ts'
import { safeBlock, safeJson, safeLine } from '../terminal.ts'

/** Explains one tool. */
export const execute: Command = ({ operands: [tool = ''], options }, io) =>
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
