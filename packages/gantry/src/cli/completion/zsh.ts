import { type OptionInfo, type OptionName, options } from '../option-table.ts'
import { commandGroups, commandWords, completionRows, summaryOf } from './rows.ts'

/** A completion script for zsh, from the tables. */
export function zshCompletion(): string {
  const cases = completionRows().map(({ name, options: own, operand }) => {
    const first = operandAction(operand)
    const specs = [
      ...own.map((option) => optionSpec(option.slice(2) as OptionName)),
      `'1:operand:${first}'`,
      `'*:file:_files'`,
    ]
    return `    '${name}') _arguments ${specs.join(' ')} ;;`
  })
  const words = (first: string): string =>
    commandWords(first)
      .map((word) => quote(`${word}:${summaryOf(first === '' ? word : `${first} ${word}`)}`))
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

function optionSpec(name: OptionName): string {
  const { kind, summary, choices }: OptionInfo = options[name]
  const text = summary.replaceAll(/[[\]:]/g, '')
  const words = choices === undefined ? ' ' : `(${choices.join(' ')})`
  const value = kind === 'flag' ? '' : kind === 'file' ? ':file:_files' : `:value:${words}`
  return quote(`--${name}${kind === 'flag' ? '' : '='}[${text}]${value}`)
}

function quote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`
}
