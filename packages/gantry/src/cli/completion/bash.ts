import { type OptionInfo, options } from '../option-table.ts'
import { commandGroups, commandWords, completionRows } from './rows.ts'

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

/** What can follow an option: a file, or one of its words. */
function valueCases(): string[] {
  return Object.entries<OptionInfo>(options).flatMap(([name, { kind, choices }]) => {
    if (kind === 'file') return [`    --${name}) COMPREPLY=($(compgen -f -- "$word")); return ;;`]
    if (choices === undefined) return []
    return [`    --${name}) COMPREPLY=($(compgen -W '${choices.join(' ')}' -- "$word")); return ;;`]
  })
}
