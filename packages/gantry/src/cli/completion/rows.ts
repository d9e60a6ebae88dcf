import type { CommandInfo } from '../command-info.ts'
import { commands, listedCommands } from '../command-table.ts'
import { type OptionInfo, options } from '../option-table.ts'

/** What a shell needs to know of one command. */
export interface CompletionRow {
  readonly name: string
  readonly summary: string
  readonly options: readonly string[]
  /** Options that are followed by a value. */
  readonly valued: readonly string[]
  /** What the first operand can be. */
  readonly operand: 'tools' | 'files' | readonly string[] | undefined
}

export function completionRows(): readonly CompletionRow[] {
  return listedCommands().map(([name, info]) => {
    const first = info.operands[0]?.completes
    return {
      name,
      summary: info.summary,
      options: info.options.map((option) => `--${option}`),
      valued: info.options.filter((option) => takesValue(options[option])).map((option) => `--${option}`),
      operand: first === 'commands' ? Object.keys(commands).filter((word) => !/[_ ]/.test(word)) : first,
    }
  })
}

function takesValue({ kind }: OptionInfo): boolean {
  return kind !== 'flag'
}

/** The words that can follow: the first words of all commands, or the second words of one. */
export function commandWords(first: string): readonly string[] {
  const names = listedCommands().map(([name]) => name.split(' '))
  const words =
    first === '' ? names.map(([word]) => word) : names.filter(([word]) => word === first).map(([, word]) => word)
  return [...new Set(words.filter((word) => word !== undefined))]
}

/** First words that a second may follow. */
export function commandGroups(): readonly string[] {
  return commandWords('').filter((word) => commandWords(word).length > 0)
}

/** One line about a word that `commandWords` gives. */
export function summaryOf(word: string): string {
  const rows: { readonly [name: string]: CommandInfo } = commands
  return rows[word]?.summary ?? Object.entries(rows).find(([name]) => name.startsWith(`${word} `))?.[1].summary ?? ''
}
