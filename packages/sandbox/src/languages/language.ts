import { type Issue, ToolError } from '@gantry/contract'
import { quote } from '@gantry/core/internal/ids/quote'
import { unknownKeys } from '@gantry/core/internal/search/near'
import { checkPath } from './file-path.ts'

/** A command; in its words `{file}` is where the code lies, `{node}` a Node.js, `{drivers}` the folder of the drivers. */
export type Command = readonly [string, ...string[]]

interface LanguageTraits {
  readonly name: string
  readonly aliases?: readonly string[]
  /** What the code's file is called; it lies in a folder that programs may write to and that is never brought out. */
  readonly file: string
  /** Programs that the root file system must have, by bare name. */
  readonly needs?: readonly string[]
  /** What to do when they are not there, in a sentence. */
  readonly install?: string
  readonly env?: { readonly [name: string]: string }
}

/** A language whose code is written to a file, perhaps compiled, and run. */
export interface CommandLanguage extends LanguageTraits {
  /** What it makes is best put beside the code, as `{file}.out`. */
  readonly compile?: Command
  readonly command: Command
  readonly driver?: undefined
  readonly gateway?: undefined
}

/** A language whose interpreter is started ahead and waits for its code on descriptor 3; see `native/drivers`. */
export interface DriverLanguage extends LanguageTraits {
  readonly driver: Command
  /** It knows programs over tools; then the driver gets the word `gateway` behind its others when one will come. */
  readonly gateway?: true
  readonly command?: undefined
  readonly compile?: undefined
}

/** One row of the table of languages. */
export type Language = CommandLanguage | DriverLanguage

const keys = ['name', 'aliases', 'file', 'needs', 'install', 'env', 'compile', 'command', 'driver', 'gateway']
const goodName = /^[a-z][a-z0-9+#._-]{0,31}$/
const goodProgram = /^[A-Za-z0-9][A-Za-z0-9+._-]{0,63}$/
const goodVariable = /^[A-Za-z_][A-Za-z0-9_]*$/
const placeholders = ['{file}', '{node}', '{drivers}']

/** Refuses a row that no code could run by. Throws CONFIG_INVALID with every issue, at paths below `path`. */
export function checkLanguage(row: unknown, path = ''): asserts row is Language {
  const issues = isObject(row) ? issuesOf(row) : [{ path: '', message: 'must be an object' }]
  if (issues.length === 0) return
  const placed = issues.map((issue) => ({ ...issue, path: `${path}${issue.path}` }))
  const text = placed.map((issue) => `${issue.path} ${issue.message}`.trim()).join('; ')
  throw new ToolError('CONFIG_INVALID', `A language cannot be set up: ${text}.`, { details: { issues: placed } })
}

function issuesOf(row: { readonly [key: string]: unknown }): Issue[] {
  const { name, aliases, file, needs, install, env, compile, command, driver } = row
  const names = 'in small letters, digits and + # . _ -'
  return [
    ...unknownKeys(row, keys, '', 'is not part of a language'),
    ...(isText(name) && goodName.test(name) ? [] : [{ path: '/name', message: `must be a name ${names}` }]),
    ...listIssues(aliases, '/aliases', (alias) => goodName.test(alias), `must be a list of names ${names}`),
    ...fileIssues(file),
    ...listIssues(needs, '/needs', (program) => goodProgram.test(program), 'must be a list of bare names of programs'),
    ...(install === undefined || isText(install) ? [] : [{ path: '/install', message: 'must be a sentence' }]),
    ...envIssues(env),
    ...commandIssues(compile, '/compile'),
    ...commandIssues(command, '/command'),
    ...commandIssues(driver, '/driver'),
    ...wayIssues(compile, command, driver),
    ...(row.gateway === undefined || (row.gateway === true && driver !== undefined)
      ? []
      : [{ path: '/gateway', message: 'must be true, beside a driver' }]),
  ]
}

function fileIssues(file: unknown): Issue[] {
  const fault = isText(file) ? (checkPath(file) ?? (file.includes('/') ? 'is in a folder' : undefined)) : 'is no text'
  return fault === undefined ? [] : [{ path: '/file', message: `must be the name of a file, and ${fault}` }]
}

function listIssues(list: unknown, path: string, fits: (item: string) => boolean, message: string): Issue[] {
  if (list === undefined || (Array.isArray(list) && list.every((item) => isText(item) && fits(item)))) return []
  return [{ path, message }]
}

function envIssues(env: unknown): Issue[] {
  if (env === undefined) return []
  const fits = ([name, value]: [string, unknown]): boolean => goodVariable.test(name) && isWord(value)
  return isObject(env) && Object.entries(env).every(fits) ? [] : [{ path: '/env', message: 'must hold texts by name' }]
}

function commandIssues(command: unknown, path: string): Issue[] {
  if (command === undefined) return []
  if (!Array.isArray(command) || command.length === 0 || !command.every(isWord) || command[0] === '') {
    return [{ path, message: 'must be a list of words, the first of them a program' }]
  }
  const wrong = command
    .join(' ')
    .match(/\{\w+\}/g)
    ?.find((word) => !placeholders.includes(word))
  if (wrong === undefined) return []
  return [{ path, message: `holds ${quote(wrong)}; there are ${placeholders.join(', ')}` }]
}

function wayIssues(compile: unknown, command: unknown, driver: unknown): Issue[] {
  if ((command === undefined) === (driver === undefined)) {
    return [{ path: '/command', message: 'must be there, or else driver, and not both' }]
  }
  return compile === undefined || driver === undefined
    ? []
    : [{ path: '/compile', message: 'is of no use to a driver' }]
}

function isObject(value: unknown): value is { readonly [key: string]: unknown } {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function isText(value: unknown): value is string {
  return typeof value === 'string'
}

function isWord(value: unknown): value is string {
  return isText(value) && value.isWellFormed() && !value.includes('\0')
}
