import { userInfo } from 'node:os'
import { ToolError } from '@gantry/contract'
import type { QuarantinedTool } from '@gantry/core'
import type { Command } from '../io.ts'
import { printJson } from '../print.ts'
import { withSources } from '../session.ts'
import { readShown, rememberShown } from '../shown.ts'
import { safeLine } from '../terminal.ts'
import { usageError } from '../usage.ts'
import { difference, notHeld, shortHash } from './tools-diff.ts'

/**
 * Trusts tools as a person saw them: the server was asked anew since then, and may have answered something else.
 * - `id@hash` trusts the definition of that hash, `id` the one that was shown last.
 * - Where none was ever shown, it is shown now, and what is trusted is what was shown.
 * All of them are looked for and compared before any is approved.
 */
export const execute: Command = ({ operands, options }, io) =>
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
    const text = unseen.map((tool) => `Nobody was shown this yet. ${difference(tool)}`).join('')
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
