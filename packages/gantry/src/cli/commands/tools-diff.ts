import { ToolError } from '@gantry/contract'
import type { QuarantinedTool } from '@gantry/core'
import { diffText } from '@gantry/core/internal/pins/diff'
import type { Command } from '../io.ts'
import { printJson } from '../print.ts'
import { withSources } from '../session.ts'
import { rememberShown } from '../shown.ts'
import { safeLine } from '../terminal.ts'

/** Shows what is different about tools that may not be called any more, and remembers what it showed. */
export const execute: Command = ({ operands: [id], options }, io) =>
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

/** Enough of a hash to tell definitions apart, even for one who makes many. */
export function shortHash({ hash }: QuarantinedTool): string {
  return hash.slice(0, 16)
}

export function notHeld(id: string): ToolError {
  return new ToolError(
    'TOOL_NOT_FOUND',
    `${safeLine(id)} is not in quarantine; gantry tools diff lists those that are.`,
  )
}
