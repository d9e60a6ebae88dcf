import type { CommandInfo } from '../../../packages/gantry/src/cli/command-info.ts'
import { type CommandName, commands, listedCommands } from '../../../packages/gantry/src/cli/command-table.ts'
import { exitCodes, operandText } from '../../../packages/gantry/src/cli/commands/help.ts'
import { type OptionInfo, type OptionName, options } from '../../../packages/gantry/src/cli/option-table.ts'

/** docs/reference/cli.md, from the table of commands. */
export function cliPage(): string {
  const listed = listedCommands()
  const rows = listed.map(
    ([name, { summary }]) => `| [\`gantry ${name}\`](#gantry-${anchor(name)}) | ${cell(summary)} |`,
  )
  const codes = Object.entries(exitCodes).map(([code, meaning]) => `| ${code} | ${meaning} |`)
  return `# Commands

Every command and option of \`gantry\`. [The gantry command](../cli.md) explains what they have in common. The page is written by \`npm run docs -- --write\` from the table that also makes \`gantry help\`.

| command | what it does |
| --- | --- |
${rows.join('\n')}

## Exit codes

| code | meaning |
| --- | --- |
${codes.join('\n')}

${listed.map(([name]) => section(name)).join('\n\n')}
`
}

function section(name: CommandName): string {
  const { summary, notes = [], operands, options: own, examples }: CommandInfo = commands[name]
  const usage = ['gantry', name, operandText(operands), own.length === 0 ? '' : '[options]'].filter(
    (part) => part !== '',
  )
  const lines = examples.map(({ line, what }) => `${line}\n    # ${what}`)
  return [
    `## gantry ${name}`,
    summary,
    `\`\`\`text no-run\n${usage.join(' ')}\n\`\`\``,
    ...notes.map(escaped),
    ...(own.length === 0 ? [] : [`| option | meaning |\n| --- | --- |\n${own.map(option).join('\n')}`]),
    ...(lines.length === 0 ? [] : [`\`\`\`sh no-run\n${lines.join('\n')}\n\`\`\``]),
  ].join('\n\n')
}

function option(name: OptionName): string {
  const { short, value, summary, choices }: OptionInfo = options[name]
  const typed = `${short === undefined ? '' : `-${short}, `}--${name}${value === undefined ? '' : ` ${value}`}`
  const words = choices === undefined ? '' : ` One of ${choices.map((word) => `\`${word}\``).join(', ')}.`
  return `| \`${typed}\` | ${cell(summary)}${words} |`
}

function anchor(name: string): string {
  return name.replaceAll(' ', '-')
}

function cell(text: string): string {
  return escaped(text).replaceAll('|', '\\|')
}

/** Text of the terminal as Markdown: an asterisk or an underscore is itself. */
function escaped(text: string): string {
  return text.replaceAll(/(`[^`]*`)|([*_<])/g, (_, code: string | undefined, sign: string) => code ?? `\\${sign}`)
}
