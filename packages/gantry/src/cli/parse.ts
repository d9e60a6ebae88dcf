import type { CommandInfo } from './command-info.ts'
import { type CommandName, commandGroup, commands, listedCommands } from './command-table.ts'
import { unknownName, usageError } from './errors.ts'
import { type OptionInfo, type OptionName, type OptionValues, options, optionValue, quoted } from './option-table.ts'

/** What a command line asks for. */
export interface Invocation {
  readonly command: CommandName
  readonly operands: readonly string[]
  readonly options: OptionValues
}

const table: { readonly [name: string]: OptionInfo } = options
const shorts = new Map(
  Object.entries(table).flatMap(([name, { short }]) => (short === undefined ? [] : [[short, name]])),
)

/**
 * Reads a command line by the tables. Options may stand anywhere before `--`; the last of equal ones counts,
 * except where a list is meant.
 * Throws INPUT_INVALID for what is not in the tables, with the nearest name that is.
 */
export async function parseCommandLine(argv: readonly string[]): Promise<Invocation> {
  const { words, given } = await split(argv)
  const values = Object.fromEntries(given) as OptionValues
  if (values.version === true && words.length === 0) return { command: 'help', operands: [], options: values }
  const isGroup = words.length === 1 && commandGroup(words[0] ?? '').length > 0
  if (values.help === true && isGroup) return { command: 'help', operands: words, options: values }
  const [option] = given.keys()
  if (words.length === 0 && option !== undefined && values.help !== true) {
    throw usageError('command', `--${option} needs a command beside it.`)
  }
  const { command, operands } = await commandOf(words)
  if (values.help === true) return { command: 'help', operands: command === 'help' ? [] : [command], options: values }
  checkOptions(command, [...given.keys()])
  await checkOperands(command, operands)
  return { command, operands, options: values }
}

/** Whether the answer must be JSON, even when the line itself is wrong. */
export function wantsJson(argv: readonly string[]): boolean {
  const end = argv.indexOf('--')
  return (end === -1 ? argv : argv.slice(0, end)).includes('--json')
}

async function split(argv: readonly string[]): Promise<{ words: string[]; given: Map<OptionName, unknown> }> {
  const words: string[] = []
  const given = new Map<OptionName, unknown>()
  const rest = [...argv]
  for (let word = rest.shift(); word !== undefined; word = rest.shift()) {
    if (word === '--') return { words: [...words, ...rest], given }
    if (word === '-' || !word.startsWith('-')) {
      words.push(word)
      continue
    }
    const [typed, attached] = cut(word)
    const name = word.startsWith('--') ? typed : shorts.get(typed)
    const info = name !== undefined && Object.hasOwn(table, name) ? table[name] : undefined
    if (name === undefined || info === undefined) throw await unknownOption(word, typed)
    if (info.kind === 'flag' && attached !== undefined) throw usageError(`--${name}`, `--${name} takes no value.`)
    const text = info.kind === 'flag' ? '' : (attached ?? rest.shift())
    if (text === undefined) throw usageError(`--${name}`, `--${name} needs a value: --${name} ${info.value}.`)
    const value = optionValue(name, info, text)
    const before = info.kind === 'list' ? (given.get(name as OptionName) ?? []) : undefined
    given.set(name as OptionName, Array.isArray(before) ? [...before, value] : value)
  }
  return { words, given }
}

/** The name after the dashes, and what stands behind `=`. */
function cut(word: string): [string, string | undefined] {
  const name = word.replace(/^--?/, '')
  const at = name.indexOf('=')
  return at === -1 ? [name, undefined] : [name.slice(0, at), name.slice(at + 1)]
}

function unknownOption(word: string, typed: string): Promise<Error> {
  const shown = word.startsWith('--') ? `--${typed}` : word
  const names = Object.keys(table).map((name) => `--${name}`)
  return unknownName(shown, `There is no option ${quoted(shown)}.`, `--${typed}`, names)
}

/** The longest command that the words begin with, and what is left for it. */
async function commandOf(words: readonly string[]): Promise<{ command: CommandName; operands: readonly string[] }> {
  for (const length of [2, 1]) {
    const name = words.slice(0, length).join(' ')
    if (words.length >= length && Object.hasOwn(commands, name)) {
      return { command: name as CommandName, operands: words.slice(length) }
    }
  }
  const [first, second] = words
  if (first === undefined) return { command: 'help', operands: [] }
  const names = listedCommands().map(([name]) => name)
  const group = commandGroup(first).map(([name]) => name)
  if (group.length > 0 && second === undefined) {
    throw usageError('command', `${first} needs one more word: gantry ${group.join(', gantry ')}.`)
  }
  const wanted = group.length > 0 ? `${first} ${second}` : first
  throw await unknownName('command', `There is no command ${quoted(wanted)}.`, wanted, names)
}

function checkOptions(command: CommandName, given: readonly OptionName[]): void {
  const { options: allowed }: CommandInfo = commands[command]
  const wrong = given.find((name) => !allowed.includes(name))
  if (wrong === undefined) return
  const owners = Object.entries(commands as { readonly [name: string]: CommandInfo }).filter(([, info]) =>
    info.options.includes(wrong),
  )
  const where = owners.length === 0 ? '' : ` It belongs to ${owners.map(([name]) => name).join(', ')}.`
  throw usageError(`--${wrong}`, `gantry ${command} has no option --${wrong}.${where}`)
}

async function checkOperands(command: CommandName, given: readonly string[]): Promise<void> {
  const { operands, examples, discreet }: CommandInfo = commands[command]
  const missing = operands.find((operand, index) => operand.optional !== true && given[index] === undefined)
  if (missing !== undefined) {
    const example = examples[0] === undefined ? '' : ` For example: ${examples[0].line}`
    throw usageError(missing.name, `gantry ${command} needs <${missing.name}>.${example}`)
  }
  const extra = operands.some(({ many }) => many === true) ? undefined : given[operands.length]
  if (extra === undefined) return
  if (discreet === true) {
    throw usageError(
      'operands',
      `gantry ${command} takes one name; the value is typed or piped in, never written here.`,
    )
  }
  const hint = operands.some(({ name }) => name === 'json') ? ' Put quotes around the JSON.' : ''
  const message = `gantry ${command} does not know what to do with ${quoted(extra)}.${hint}`
  const beside = commandGroup(command).map(([name]) => name)
  throw await unknownName('operands', message, `${command} ${extra}`, beside)
}
