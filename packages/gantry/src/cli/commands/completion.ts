import type { CommandInfo } from '../command-info.ts'
import { commands, listedCommands } from '../command-table.ts'
import { unknownName } from '../errors.ts'
import type { Command } from '../io.ts'
import { type OptionInfo, type OptionName, options, quoted } from '../option-table.ts'
import { withExecutor } from '../session.ts'
import { safeLine } from '../terminal.ts'

const scripts = new Map([
  ['bash', bashCompletion],
  ['zsh', zshCompletion],
  ['fish', fishCompletion],
])

/** Prints the completion script of a shell. */
export const printCompletion: Command = async ({ operands: [shell = ''] }, io) => {
  const script = scripts.get(shell)
  if (script === undefined) {
    throw await unknownName(
      'shell',
      `No completion for ${quoted(shell)}; supported shells are bash, zsh and fish.`,
      shell,
      scripts.keys(),
    )
  }
  await io.out(script())
  return 0
}

/** Ids of tools, one per line; errors are not shown to a shell that completes. */
export const completeTools: Command = async ({ options }, io) => {
  try {
    return await withExecutor(options, { ...io, err() {} }, async (gantry) => {
      const { items } = gantry.tools({ limit: 1_000 })
      await io.out(items.map(({ key }) => `${safeLine(key)}\n`).join(''))
      return 0
    })
  } catch {
    return 1
  }
}

/** The completions of one command. */
export interface CompletionRow {
  readonly name: string
  readonly summary: string
  readonly options: readonly string[]
  /** The options without their dashes. */
  readonly names: readonly OptionName[]
  /** Options that are followed by a value. */
  readonly valued: readonly string[]
  /** Values of the first operand. */
  readonly operand: 'tools' | 'files' | readonly string[] | undefined
}

export function completionRows(): readonly CompletionRow[] {
  return listedCommands().map(([name, info]) => {
    const first = info.operands[0]?.completes
    return {
      name,
      summary: info.summary,
      options: info.options.map((option) => `--${option}`),
      names: info.options,
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

/** A completion script for bash, from the tables. */
export function bashCompletion(): string {
  const rows = completionRows()
  const cases = rows.map(({ name, options, operand }) => {
    const own = Array.isArray(operand) ? operand : commandWords(name)
    const offers = operand === 'tools' ? '$(_gantry_tools)' : own.join(' ')
    return `    '${name}') options='${options.join(' ')}' operands="${offers}" files=${operand === 'files' ? 1 : ''} ;;`
  })
  const valued = rows.flatMap(({ valued: list }) => list)
  const groups = commandGroups()
  const plainGroups = groups
    .filter((group) => !rows.some(({ name }) => name === group))
    .map((group) => `    '${group}') operands='${commandWords(group).join(' ')}' ;;`)
  return `# bash completion for gantry; load it with: source <(gantry completion bash)
_gantry_tools() {
  gantry __complete 2>/dev/null
}
_gantry() {
  local word=\${COMP_WORDS[COMP_CWORD]} options='' operands='' files='' command='' before=0 index
  local IFS=$' \\t\\n' line=\${COMP_LINE:0:COMP_POINT}
  # Tool ids hold colons, at which bash splits words; read the line again without that.
  local words=($line)
  [[ $line == *[[:space:]] ]] && words+=('')
  word=\${words[-1]}
  for ((index = 1; index < \${#words[@]} - 1; index++)); do
    [[ \${words[index]} == -* ]] && continue
    case " ${[...new Set(valued)].join(' ')} " in *" \${words[index - 1]} "*) continue ;; esac
    if [[ -z $command ]]; then command=\${words[index]}
    elif [[ ' ${groups.join(' ')} ' == *" $command "* ]]; then command="$command \${words[index]}"
    else ((before++)); fi
  done
  case $command in
    '') operands='${commandWords('').join(' ')}' options='--help --version' ;;
${plainGroups.join('\n')}
${cases.join('\n')}
  esac
  case \${words[-2]} in
${valueCases().join('\n')}
  esac
  if [[ $word == -* ]]; then COMPREPLY=($(compgen -W "$options" -- "$word"))
  elif ((before == 0)) && [[ -n $operands ]]; then COMPREPLY=($(compgen -W "$operands" -- "$word"))
  elif [[ -n $files || $before -gt 0 ]]; then COMPREPLY=($(compgen -f -- "$word")); fi
  # What stands before the last colon is already on the line.
  if [[ $word == *:* && $COMP_WORDBREAKS == *:* ]]; then COMPREPLY=("\${COMPREPLY[@]#"\${word%"\${word##*:}"}"}"); fi
}
complete -F _gantry gantry
`
}

/** The completion after an option: a file, or one of its words. */
function valueCases(): string[] {
  return Object.entries<OptionInfo>(options).flatMap(([name, { kind, choices }]) => {
    if (kind === 'file') return [`    --${name}) COMPREPLY=($(compgen -f -- "$word")); return ;;`]
    if (choices === undefined) return []
    return [`    --${name}) COMPREPLY=($(compgen -W '${choices.join(' ')}' -- "$word")); return ;;`]
  })
}

/** A completion script for fish, from the tables. */
export function fishCompletion(): string {
  const lines = [
    '# fish completion for gantry; put it into ~/.config/fish/completions/gantry.fish',
    'complete -c gantry -f',
    ...commandWords('').map(
      (word) => `complete -c gantry -n __fish_use_subcommand -a ${word} -d ${quoteFish(summaryOf(word))}`,
    ),
    ...commandGroups().flatMap((group) =>
      commandWords(group).map(
        (word) => `complete -c gantry -n ${seen(group)} -a ${word} -d ${quoteFish(summaryOf(`${group} ${word}`))}`,
      ),
    ),
  ]
  for (const { name, names, operand } of completionRows()) {
    const [first = name] = name.split(' ')
    if (operand === 'tools') lines.push(`complete -c gantry -n ${seen(first)} -a '(gantry __complete 2>/dev/null)'`)
    else if (operand === 'files') lines.push(`complete -c gantry -n ${seen(first)} -F`)
    else if (operand !== undefined)
      lines.push(`complete -c gantry -n ${seen(first)} -a ${quoteFish(operand.join(' '))}`)
    for (const option of names) lines.push(fishOption(first, option))
  }
  return `${lines.join('\n')}\n`
}

function seen(word: string): string {
  return quoteFish(`__fish_seen_subcommand_from ${word}`)
}

function fishOption(command: string, name: OptionName): string {
  const { kind, short, summary, choices }: OptionInfo = options[name]
  const shortForm = short === undefined ? '' : ` -s ${short}`
  const words = choices === undefined ? '' : ` -a ${quoteFish(choices.join(' '))}`
  const value = kind === 'flag' ? '' : kind === 'file' ? ' -r -F' : ` -x${words}`
  return `complete -c gantry -n ${seen(command)} -l ${name}${shortForm}${value} -d ${quoteFish(summary)}`
}

function quoteFish(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`
}

/** A completion script for zsh, from the tables. */
export function zshCompletion(): string {
  const cases = completionRows().map(({ name, names, operand }) => {
    const first = operandAction(operand)
    const specs = [...names.map(zshOption), `'1:operand:${first}'`, `'*:file:_files'`]
    return `    '${name}') _arguments ${specs.join(' ')} ;;`
  })
  const words = (first: string): string =>
    commandWords(first)
      .map((word) => quoteZsh(`${word}:${summaryOf(first === '' ? word : `${first} ${word}`)}`))
      .join(' ')
  return `#compdef gantry
# zsh completion for gantry; put it into a folder of $fpath as _gantry
_gantry_tools() {
  local -a ids
  ids=(\${(f)"$(gantry __complete 2>/dev/null)"})
  compadd -a ids
}
_gantry() {
  local command
  if ((CURRENT == 2)); then
    local -a commands=(${words('')})
    _describe command commands
    return
  fi
  command=\${words[2]}
  local -a subcommands=()
  case $command in
${commandGroups()
  .map((group) => `    '${group}') subcommands=(${words(group)}) ;;`)
  .join('\n')}
  esac
  if ((\${#subcommands})) && [[ \${words[3]} != -* ]]; then
    if ((CURRENT == 3)); then
      _describe command subcommands
      return
    fi
    command="$command \${words[3]}"
    shift words
    ((CURRENT--))
  fi
  shift words
  ((CURRENT--))
  case $command in
${cases.join('\n')}
  esac
}
if [[ $funcstack[1] == _gantry ]]; then _gantry "$@"; else compdef _gantry gantry; fi
`
}

function operandAction(operand: string | readonly string[] | undefined): string {
  if (operand === 'tools') return '_gantry_tools'
  if (operand === 'files') return '_files'
  return operand === undefined ? ' ' : `(${[operand].flat().join(' ')})`
}

function zshOption(name: OptionName): string {
  const { kind, summary, choices }: OptionInfo = options[name]
  const text = summary.replaceAll(/[[\]:]/g, '')
  const words = choices === undefined ? ' ' : `(${choices.join(' ')})`
  const value = kind === 'flag' ? '' : kind === 'file' ? ':file:_files' : `:value:${words}`
  return quoteZsh(`--${name}${kind === 'flag' ? '' : '='}[${text}]${value}`)
}

function quoteZsh(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`
}
