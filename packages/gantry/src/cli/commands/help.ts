import { readFileSync } from 'node:fs'
import { findPackageJSON } from 'node:module'
import { codes } from '@gantry/contract'
import type { CommandInfo, Operand } from '../command-info.ts'
import { type CommandName, commandGroup, commands, isCommandName, listedCommands } from '../command-table.ts'
import { unknownName } from '../errors.ts'
import type { Command } from '../io.ts'
import { type OptionInfo, options, quoted } from '../option-table.ts'

/** Explains one command or all; also answers `--version`. */
export const showHelp: Command = async ({ operands, options }, io) => {
  if (options.version === true) {
    const manifest = findPackageJSON('.', import.meta.url)
    const { version } = JSON.parse(manifest === undefined ? '{}' : readFileSync(manifest, 'utf8'))
    await io.out(`gantry ${version}\n`)
    return 0
  }
  const wanted = operands.join(' ')
  if (wanted === '') await io.out(overview())
  else if (isCommandName(wanted)) await io.out(commandHelp(wanted))
  else if (commandGroup(wanted).length > 0) await io.out(groupHelp(wanted))
  else throw await unknownName('command', `There is no command ${quoted(wanted)}.`, wanted, Object.keys(commands))
  return 0
}

/** The meaning of each exit code; the numbers are those of the table of error codes. */
export const exitCodes: { readonly [code: number]: string } = {
  0: 'ok',
  [codes.BACKEND_FAILED.exit]: 'the tool failed, or the output could not be written',
  [codes.INPUT_INVALID.exit]: 'wrong command line, input or configuration',
  [codes.DENIED.exit]: 'denied',
  [codes.TIMEOUT.exit]: 'out of time',
  [codes.BACKEND_UNAVAILABLE.exit]: 'something needed is not available; try again later',
  [codes.CANCELLED.exit]: 'cancelled',
  [codes.OUTCOME_UNKNOWN.exit]: 'may or may not have run',
}

/** The overview page. */
export function overview(): string {
  return [
    'gantry runs tools for AI agents: any tool, through one strict pipeline.',
    '',
    'Usage: gantry <command> [options]',
    '',
    'Commands:',
    ...commandLines(listedCommands()),
    '',
    'Options of most commands:',
    ...columns(optionRows(['json', 'config', 'help', 'version'])),
    '',
    ...exitCodeLines(),
    '',
    'Examples:',
    ...[commands.run, commands.stream, commands.describe].map(({ examples }) => `  ${examples[0].line}`),
    '',
    'gantry help <command> explains one command. Without a configuration file the built-in and demo tools are there.',
    '',
  ].join('\n')
}

/** The page of a group of commands. */
export function groupHelp(first: string): string {
  return [
    `Usage: gantry ${first} <command> [options]`,
    '',
    'Commands:',
    ...commandLines(commandGroup(first)),
    '',
    `gantry help ${first} <command> explains one command.`,
    '',
  ].join('\n')
}

/** The page of one command. */
export function commandHelp(name: CommandName): string {
  const { summary, notes = [], operands, options: own, examples }: CommandInfo = commands[name]
  const usage = ['gantry', name, operandText(operands), own.length > 0 ? '[options]' : ''].filter((part) => part !== '')
  return [
    summary,
    '',
    `Usage: ${usage.join(' ')}`,
    ...(notes.length > 0 ? ['', ...notes] : []),
    '',
    'Options:',
    ...columns(optionRows(own)),
    '',
    ...(examples.length > 0
      ? ['Examples:', ...examples.flatMap(({ line, what }) => [`  ${line}`, `      ${what}`]), '']
      : []),
    ...(commandGroup(name).length > 0 ? ['Related commands:', ...commandLines(commandGroup(name)), ''] : []),
    ...exitCodeLines(),
    '',
  ].join('\n')
}

export function operandText(operands: readonly Operand[]): string {
  const shown = operands.map(({ name, optional, many }) => {
    const text = many === true ? `${name}…` : name
    return optional === true ? `[${text}]` : `<${text}>`
  })
  return shown.join(' ')
}

function commandLines(rows: ReturnType<typeof listedCommands>): string[] {
  return columns(rows.map(([name, { operands, summary }]) => [`${name} ${operandText(operands)}`.trim(), summary]))
}

function optionRows(names: readonly (keyof typeof options)[]): [string, string][] {
  return names.map((name) => {
    const { short, value, summary }: OptionInfo = options[name]
    const head = short === undefined ? `    --${name}` : `-${short}, --${name}`
    return [value === undefined ? head : `${head} ${value}`, summary]
  })
}

function columns(rows: readonly (readonly [string, string])[]): string[] {
  const width = Math.max(...rows.map(([left]) => left.length))
  return rows.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`)
}

function exitCodeLines(): string[] {
  return ['Exit codes:', ...columns(Object.entries(exitCodes).map(([code, meaning]) => [code, meaning]))]
}
