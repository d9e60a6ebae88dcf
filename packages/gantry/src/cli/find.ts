import type { Page } from '@gantry/core'
import type { Filter } from './caller.ts'
import type { Io } from './io.ts'
import type { OptionValues } from './option-table.ts'
import { clip, safeLine } from './terminal.ts'

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
