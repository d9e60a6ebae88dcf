import { type OptionInfo, type OptionName, options } from '../option-table.ts'
import { commandGroups, commandWords, completionRows, summaryOf } from './rows.ts'

/** A completion script for fish, from the tables. */
export function fishCompletion(): string {
  const lines = [
    '# fish completion for gantry; put it into ~/.config/fish/completions/gantry.fish',
    'complete -c gantry -f',
    ...commandWords('').map(
      (word) => `complete -c gantry -n __fish_use_subcommand -a ${word} -d ${quote(summaryOf(word))}`,
    ),
    ...commandGroups().flatMap((group) =>
      commandWords(group).map(
        (word) => `complete -c gantry -n ${seen(group)} -a ${word} -d ${quote(summaryOf(`${group} ${word}`))}`,
      ),
    ),
  ]
  for (const { name, options: own, operand } of completionRows()) {
    const [first = name] = name.split(' ')
    if (operand === 'tools') lines.push(`complete -c gantry -n ${seen(first)} -a '(gantry __complete 2>/dev/null)'`)
    else if (operand === 'files') lines.push(`complete -c gantry -n ${seen(first)} -F`)
    else if (operand !== undefined) lines.push(`complete -c gantry -n ${seen(first)} -a ${quote(operand.join(' '))}`)
    for (const option of own) lines.push(optionLine(first, option.slice(2) as OptionName))
  }
  return `${lines.join('\n')}\n`
}

function seen(word: string): string {
  return quote(`__fish_seen_subcommand_from ${word}`)
}

function optionLine(command: string, name: OptionName): string {
  const { kind, short, summary, choices }: OptionInfo = options[name]
  const letter = short === undefined ? '' : ` -s ${short}`
  const words = choices === undefined ? '' : ` -a ${quote(choices.join(' '))}`
  const value = kind === 'flag' ? '' : kind === 'file' ? ' -r -F' : ` -x${words}`
  return `complete -c gantry -n ${seen(command)} -l ${name}${letter}${value} -d ${quote(summary)}`
}

function quote(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`
}
