import type { CommandInfo } from './command-info.ts'
import { type CommandName, commandGroup, commands, isCommandName, listedCommands } from './command-table.ts'
import { unknownName, usageError } from './errors.ts'
import {
  isOptionName,
  type OptionInfo,
  type OptionName,
  type OptionValues,
  options,
  optionValue,
  quoted,
} from './option-table.ts'

/** A parsed command line. */
export interface Invocation {
  readonly command: CommandName
  readonly operands: readonly string[]
  readonly options: OptionValues
}

const shorts = new Map(
  Object.entries<OptionInfo>(options).flatMap(([name, { short }]) => (short === undefined ? [] : [[short, name]])),
)

/**
 * Parses a command line by the tables. Options may be anywhere before `--`; the last of repeated options takes
 * precedence, except for list options, which accumulate.
 * Throws INPUT_INVALID with the nearest name for an unknown command or option.
 */
export async function parseCommandLine(argv: readonly string[]): Promise<Invocation> {
  const { words, given } = await split(argv)
  const values = Object.fromEntries(given) as OptionValues
  if (values.version === true && words.length === 0) return { command: 'help', operands: [], options: values }
  const isGroup = words.length === 1 && commandGroup(words[0] ?? '').length > 0
  if (values.help === true && isGroup) return { command: 'help', operands: words, options: values }
  const [option] = given.keys()
  if (words.length === 0 && option !== undefined && values.help !== true) {
    throw usageError('command', `--${option} needs a command.`)
  }
  const { command, operands } = await commandOf(words)
  if (values.help === true) return { command: 'help', operands: command === 'help' ? [] : [command], options: values }
  checkOptions(command, [...given.keys()])
  await checkOperands(command, operands)
  return { command, operands, options: values }
}

/** Whether the output must be JSON, even when the command line is invalid. */
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
    if (name === undefined || !isOptionName(name)) throw await unknownOption(word, typed)
    const info: OptionInfo = options[name]
    if (info.kind === 'flag' && attached !== undefined) throw usageError(`--${name}`, `--${name} takes no value.`)
    const text = info.kind === 'flag' ? '' : (attached ?? rest.shift())
    if (text === undefined) throw usageError(`--${name}`, `--${name} needs a value: --${name} ${info.value}.`)
    const value = optionValue(name, info, text)
    const before = info.kind === 'list' ? (given.get(name) ?? []) : undefined
    given.set(name, Array.isArray(before) ? [...before, value] : value)
  }
  return { words, given }
}

/** The name after the dashes, and the value after `=`. */
function cut(word: string): [string, string | undefined] {
  const name = word.replace(/^--?/, '')
  const at = name.indexOf('=')
  return at === -1 ? [name, undefined] : [name.slice(0, at), name.slice(at + 1)]
}

function unknownOption(word: string, typed: string): Promise<Error> {
  const shown = word.startsWith('--') ? `--${typed}` : word
  const names = Object.keys(options).map((name) => `--${name}`)
  return unknownName(shown, `There is no option ${quoted(shown)}.`, `--${typed}`, names)
}

/** The longest command that is a prefix of the words, and the remaining words. */
async function commandOf(words: readonly string[]): Promise<{ command: CommandName; operands: readonly string[] }> {
  for (const length of [2, 1]) {
    const name = words.slice(0, length).join(' ')
    if (words.length >= length && isCommandName(name)) {
      return { command: name, operands: words.slice(length) }
    }
  }
  const [first, second] = words
  if (first === undefined) return { command: 'help', operands: [] }
  const names = listedCommands().map(([name]) => name)
  const group = commandGroup(first).map(([name]) => name)
  if (group.length > 0 && second === undefined) {
    throw usageError('command', `${first} needs one more word: gantry ${group.join(', gantry ')}.`)
  }
  if (group.length > 0) {
    const wanted = `${first} ${second}`
    const message = `There is no command ${quoted(wanted)}. ${first} is followed by ${wordsOf(group).join(', ')}.`
    throw await unknownName('command', message, wanted, group)
  }
  const message = `There is no command ${quoted(first)}.`
  const near = await nearestCommands(first, second, names)
  throw near.length === 0
    ? usageError('command', message)
    : usageError('command', `${message} Did you mean ${near.join(' or ')}?`, { nearest: near })
}

function wordsOf(group: readonly CommandName[]): readonly string[] {
  return group.map((name) => name.split(' ')[1] ?? name)
}

/** How many commands a suggestion names at the most. */
const mostSuggested = 4

/** Commands by the names that other programs have for them. */
const otherNames: { readonly [word: string]: readonly CommandName[] } = {
  approve: ['approvals approve', 'tools approve'],
  auth: ['login', 'keys create'],
  check: ['config check'],
  dead: ['dlq ls'],
  exec: ['run'],
  get: ['call'],
  health: ['doctor', 'backends', 'workers'],
  info: ['describe', 'call'],
  invoke: ['run'],
  jobs: ['calls'],
  journal: ['logs', 'calls replay'],
  kill: ['cancel'],
  lint: ['config check'],
  list: ['tools', 'calls'],
  log: ['logs'],
  ls: ['tools', 'calls'],
  ps: ['calls'],
  retry: ['dlq redrive'],
  show: ['call', 'describe'],
  start: ['serve'],
  status: ['call', 'workers', 'doctor'],
  stop: ['cancel'],
  tail: ['logs', 'call'],
  top: ['workers', 'calls'],
  validate: ['config check'],
  whoami: ['login'],
  workflow: ['code', 'chain'],
}

/**
 * For a tool id the command that runs it. Else both words together, as for `key create`; commands that other programs
 * call so; those whose name is near to what was typed; those with a word that is: `deny` is half of `approvals deny`.
 */
async function nearestCommands(
  typed: string,
  second: string | undefined,
  names: readonly CommandName[],
): Promise<readonly string[]> {
  const { nearest } = await import('@gantry/core/internal/search/near')
  if (/^[\w.-]+:[\w.-]+(?::[\w.-]+)?$/.test(typed)) return [`run ${typed}`]
  const pairs = names.filter((name) => name.includes(' '))
  const [pair] = second === undefined ? [] : nearest(`${typed} ${second}`, pairs, { limit: 1 })
  if (pair !== undefined) return [pair]
  if (Object.hasOwn(otherNames, typed)) return otherNames[typed] ?? []
  const whole = nearest(typed, names)
  if (whole.length > 0) return whole
  const words = new Set(names.flatMap((name) => name.split(' ')))
  const [word] = nearest(typed, words, { limit: 1 })
  return names.filter((name) => name.split(' ').includes(word ?? '')).slice(0, mostSuggested)
}

function checkOptions(command: CommandName, given: readonly OptionName[]): void {
  const { options: allowed }: CommandInfo = commands[command]
  const wrong = given.find((name) => !allowed.includes(name))
  if (wrong === undefined) return
  const owners = Object.entries<CommandInfo>(commands).filter(([, info]) => info.options.includes(wrong))
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
