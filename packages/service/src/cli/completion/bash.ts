import { commandWords, completionRows } from './rows.ts'

/** A completion script for bash, from the tables. */
export function bashCompletion(): string {
  const cases = completionRows().map(({ name, options, operand }) => {
    const offers = operand === 'tools' ? '$(_gantry_tools)' : Array.isArray(operand) ? operand.join(' ') : ''
    return `    '${name}') options='${options.join(' ')}' operands="${offers}" files=${operand === 'files' ? 1 : ''} ;;`
  })
  const valued = completionRows().flatMap(({ valued: list }) => list)
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
    elif [[ $command == config ]]; then command="config \${words[index]}"
    else ((before++)); fi
  done
  case $command in
    '') operands='${commandWords('').join(' ')}' options='--help --version' ;;
    'config') operands='${commandWords('config').join(' ')}' ;;
${cases.join('\n')}
  esac
  case \${words[-2]} in
    --config | --resume) COMPREPLY=($(compgen -f -- "$word")); return ;;
    --level) COMPREPLY=($(compgen -W 'summary schema full' -- "$word")); return ;;
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
