import { ToolError } from '@gantry/contract'
import { diffText, type QuarantinedTool } from '@gantry/core'
import type { Command } from '../io.ts'
import { printJson } from '../print.ts'
import { withSources } from '../session.ts'
import { safeLine } from '../terminal.ts'

/** Shows what is different about tools that may not be called any more. */
export const execute: Command = ({ operands: [id], options }, io) =>
  withSources(options, io, async (gantry) => {
    const held = gantry.quarantine.list().filter((tool) => id === undefined || tool.id === id)
    if (id !== undefined && held.length === 0) throw notHeld(id)
    if (options.json === true) await printJson({ items: held }, io)
    else await io.out(held.length === 0 ? 'No tool is in quarantine.\n' : held.map(text).join('\n'))
    return 0
  })

const reasons: { readonly [Reason in QuarantinedTool['reason']]: string } = {
  changed: 'is not what was approved',
  renamed: 'appeared when an approved tool went, and may be that one under another name',
}

function text({ id, backend, reason, differences }: QuarantinedTool): string {
  const name = safeLine(id)
  return `${name} of ${safeLine(backend)} ${reasons[reason]}:\n${diffText(differences)}\nTo trust it: gantry tools approve ${name}\n`
}

export function notHeld(id: string): ToolError {
  return new ToolError(
    'TOOL_NOT_FOUND',
    `${safeLine(id)} is not in quarantine; gantry tools diff lists those that are.`,
  )
}
