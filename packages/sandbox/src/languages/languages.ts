import { type Issue, ToolError } from '@gantry/contract'
import { isObject, isText } from '@gantry/contract/internal/json'
import { quote } from '@gantry/core/internal/ids/quote'
import { type Check, part, ruled } from '@gantry/core/internal/options/option'
import { optionsCheck, refuse } from '@gantry/core/internal/options/options'
import type { Refusal } from '@gantry/core/internal/runtimes/runtime'
import { nearest } from '@gantry/core/internal/search/near'
import { checkPath } from './file-path.ts'

/** A command. In its words `{file}` is the path of the code, `{node}` a Node.js, `{drivers}` the folder of the drivers. */
export type Command = readonly [string, ...string[]]

interface LanguageTraits {
  readonly name: string
  readonly aliases?: readonly string[]
  /** Name of the code file. Its folder is writable for programs and never collected. */
  readonly file: string
  /** Programs that the root file system must have, by bare name. */
  readonly needs?: readonly string[]
  /** How to install missing programs, as a sentence. */
  readonly install?: string
  readonly env?: { readonly [name: string]: string }
}

/** A language whose code is written to a file, perhaps compiled, and run. */
export interface CommandLanguage extends LanguageTraits {
  /** Its result belongs beside the code, as `{file}.out`. */
  readonly compile?: Command
  readonly command: Command
  readonly driver?: undefined
  readonly gateway?: undefined
}

/** A language whose interpreter starts before its code, which it reads from descriptor 3; see `native/drivers`. */
export interface DriverLanguage extends LanguageTraits {
  readonly driver: Command
  /** Whether the driver supports a gateway; its command then gets the argument `gateway`. */
  readonly gateway?: true
  readonly command?: undefined
  readonly compile?: undefined
}

/** A language definition. */
export type Language = CommandLanguage | DriverLanguage

/** A language definition as passed to `createLanguages`. */
export type LanguageRow = Language

/** The languages of code. */
export interface Languages {
  /** Each language once, by its canonical name. */
  readonly all: readonly Language[]
  /** By name or alias, in any letter case. Throws INPUT_INVALID at `/language` with similar names. */
  get(name: string): Language
}

/** The languages whose programs a root file system has, and the reason for each that it lacks, by name. */
export interface LanguagesFound {
  readonly available: readonly string[]
  /** Those with a driver, whose interpreter can be warm and keep its state. */
  readonly waiting: readonly string[]
  /** Those whose driver supports a gateway. */
  readonly asking: readonly string[]
  readonly missing: ReadonlyMap<string, Refusal>
}

/** Folders of a root file system that are searched for programs, and the PATH inside. */
export const programFolders = ['/usr/local/bin', '/usr/bin', '/bin'] as const

/**
 * The built-in languages and configured ones; a configured language replaces a built-in one of the same name.
 * Throws CONFIG_INVALID for definitions that are invalid or share a name.
 */
export function createLanguages(own: readonly LanguageRow[] = []): Languages {
  for (const [index, row] of own.entries()) checkLanguage(row, `/${index}`)
  const replaced = new Set(own.map(({ name }) => name))
  const all = [...builtInLanguages.filter(({ name }) => !replaced.has(name)), ...own]
  const named = new Map<string, Language>()
  for (const row of all) {
    for (const name of [row.name, ...(row.aliases ?? [])]) {
      const other = named.get(name)
      if (other !== undefined) throw taken(name, other, row)
      named.set(name, row)
    }
  }
  return { all, get: (name) => named.get(name.toLowerCase()) ?? unknown(name, named.keys(), all) }
}

/** Looks for the programs of each language; `has` returns whether a path exists inside the root file system. */
export function languagesIn({ all }: Pick<Languages, 'all'>, has: (path: string) => boolean): LanguagesFound {
  const missing = new Map<string, Refusal>()
  for (const { name, needs = [], install } of all) {
    const absent = needs.find((program) => !programFolders.some((folder) => has(`${folder}/${program}`)))
    if (absent === undefined) continue
    const reason = `There is no ${absent} in ${programFolders.join(', ')} of the sandbox, which ${name} needs.`
    missing.set(name, { reason, remedy: install ?? `Install ${absent} there.` })
  }
  const there = all.filter(({ name }) => !missing.has(name))
  const waiting = there.filter(({ driver }) => driver !== undefined)
  const asking = waiting.filter(({ gateway }) => gateway === true)
  const names = (rows: readonly Language[]): string[] => rows.map(({ name }) => name)
  return { available: names(there), waiting: names(waiting), asking: names(asking), missing }
}

function unknown(name: string, known: Iterable<string>, all: readonly Language[]): never {
  const near = nearest(name, known)
  const names = all.map((row) => row.name).join(', ')
  const hint = near.length === 0 ? '.' : `; did you mean ${near.map((one) => quote(one)).join(' or ')}?`
  throw new ToolError('INPUT_INVALID', `${quote(name)} is not a language that is set up${hint} There are ${names}.`, {
    details: { issues: [{ path: '/language', message: `must be one of ${names}` }], nearest: near },
  })
}

function taken(name: string, other: Language, row: Language): ToolError {
  const message = `The name ${quote(name)} is used by two languages, ${other.name} and ${row.name}.`
  return new ToolError('CONFIG_INVALID', message, { details: { issues: [{ path: '', message }] } })
}

const goodName = /^[a-z][a-z0-9+#._-]{0,31}$/
const goodProgram = /^[A-Za-z0-9][A-Za-z0-9+._-]{0,63}$/
const goodVariable = /^[A-Za-z_][A-Za-z0-9_]*$/
const placeholders = ['{file}', '{node}', '{drivers}']
const nameRule = 'in lower-case letters, digits and + # . _ -'

const commandCheck: Check = {
  fits: (value) => commandFault(value) === undefined,
  issues(value, path) {
    const message = commandFault(value)
    return message === undefined ? [] : [{ path, message }]
  },
}

const languageCheck = optionsCheck<Language>({
  members: {
    name: part((name) => isText(name) && goodName.test(name), `a name ${nameRule}`),
    aliases: matching(goodName, `a list of names ${nameRule}`),
    file: ruled(fileFault, 'the name of a file'),
    needs: matching(goodProgram, 'a list of bare names of programs'),
    install: { type: 'string', description: 'a sentence' },
    env: part(isEnv, 'an object of strings by the name of a variable'),
    compile: commandCheck,
    command: commandCheck,
    driver: commandCheck,
    gateway: { const: true, description: 'true' },
  },
  required: ['name', 'file'],
  noun: 'part of a language',
})

/** Checks a language definition. Throws CONFIG_INVALID with every issue, at paths below `path`. */
export function checkLanguage(row: unknown, path = ''): asserts row is Language {
  const issues = languageCheck.issues(row, path)
  refuse('language', isObject(row) ? [...issues, ...combinationIssues(row, path)] : issues)
}

/** Issues of members that exclude or require each other. */
function combinationIssues(
  { compile, command, driver, gateway }: { readonly [key: string]: unknown },
  path: string,
): Issue[] {
  const needsDriver = gateway === true && driver === undefined
  return [
    ...((command === undefined) === (driver === undefined)
      ? [{ path: `${path}/command`, message: 'or driver is required, and not both' }]
      : compile !== undefined && driver !== undefined
        ? [{ path: `${path}/compile`, message: 'cannot be combined with driver' }]
        : []),
    ...(needsDriver ? [{ path: `${path}/gateway`, message: 'needs a driver' }] : []),
  ]
}

/** A list of strings of one form. */
function matching(form: RegExp, words: string): Check {
  return part((value) => Array.isArray(value) && value.every((item) => isText(item) && form.test(item)), words)
}

function fileFault(file: string): string | undefined {
  const fault = checkPath(file) ?? (file.includes('/') ? 'is in a folder' : undefined)
  return fault === undefined ? undefined : `must be the name of a file, and ${fault}`
}

function isEnv(env: unknown): boolean {
  return isObject(env) && Object.entries(env).every(([name, value]) => goodVariable.test(name) && isWord(value))
}

function commandFault(command: unknown): string | undefined {
  if (!Array.isArray(command) || command.length === 0 || !command.every(isWord) || command[0] === '') {
    return 'must be a list of words, the first of them a program'
  }
  const placeholder = command
    .join(' ')
    .match(/\{\w+\}/g)
    ?.find((word) => !placeholders.includes(word))
  if (placeholder === undefined) return undefined
  return `holds ${quote(placeholder)}; there are ${placeholders.join(', ')}`
}

function isWord(value: unknown): value is string {
  return isText(value) && value.isWellFormed() && !value.includes('\0')
}

/** Silences warnings about experimental features; fewer helper threads leave more of the pids limit to the program. */
function nodeDriver(language: string): Command {
  return ['{node}', '--disable-warning=ExperimentalWarning', '--v8-pool-size=1', '{drivers}/node.mjs', language]
}

function debian(...packages: readonly string[]): string {
  return `Install it in the root file system of the sandboxes; on Debian: apt-get install ${packages.join(' ')}.`
}

/**
 * Languages that only need their programs in the root file system; those after bash are usually not installed.
 * Compiler output lies beside the code, in the folder that is never collected.
 */
const builtInLanguages: readonly Language[] = [
  {
    name: 'python',
    aliases: ['py', 'python3'],
    file: 'main.py',
    needs: ['python3'],
    install: debian('python3'),
    // Without -I and -E, which would ignore PYTHONHASHSEED; the environment has no other Python variable at that time.
    driver: ['python3', '-s', '-B', '-X', 'utf8', '{drivers}/python_start.py'],
    gateway: true,
  },
  { name: 'javascript', aliases: ['js', 'node', 'nodejs'], file: 'main.js', driver: nodeDriver('javascript') },
  { name: 'typescript', aliases: ['ts'], file: 'main.ts', driver: nodeDriver('typescript') },
  {
    name: 'bash',
    aliases: ['sh', 'shell'],
    file: 'main.sh',
    needs: ['bash'],
    install: debian('bash'),
    command: ['bash', '{file}'],
  },
  {
    name: 'go',
    aliases: ['golang'],
    file: 'main.go',
    needs: ['go'],
    install: debian('golang-go'),
    // Variables are set through `env`, because only command words expand `{file}`; nothing is ever downloaded.
    compile: [
      'env',
      'GOCACHE={file}.cache',
      'GOPATH={file}.path',
      'GOPROXY=off',
      'GOTOOLCHAIN=local',
      'GOFLAGS=-mod=mod',
      'GOTELEMETRY=off',
      'CGO_ENABLED=0',
      'go',
      'build',
      '-o',
      '{file}.out',
      '{file}',
    ],
    command: ['{file}.out'],
  },
  {
    name: 'ruby',
    aliases: ['rb'],
    file: 'main.rb',
    needs: ['ruby'],
    install: debian('ruby'),
    command: ['ruby', '{file}'],
  },
  {
    name: 'c',
    file: 'main.c',
    needs: ['cc'],
    install: debian('gcc', 'libc6-dev'),
    compile: ['cc', '-O1', '-o', '{file}.out', '{file}', '-lm'],
    command: ['{file}.out'],
  },
  {
    name: 'cpp',
    aliases: ['c++', 'cxx'],
    file: 'main.cpp',
    needs: ['c++'],
    install: debian('g++'),
    compile: ['c++', '-O1', '-o', '{file}.out', '{file}'],
    command: ['{file}.out'],
  },
  {
    name: 'java',
    file: 'Main.java',
    needs: ['java', 'javac'],
    install: debian('default-jdk-headless'),
    // Compiles one file in memory, whatever its class is called.
    command: ['java', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1', '-XX:-UsePerfData', '{file}'],
  },
  {
    name: 'perl',
    aliases: ['pl'],
    file: 'main.pl',
    needs: ['perl'],
    install: debian('perl'),
    command: ['perl', '{file}'],
  },
  { name: 'php', file: 'main.php', needs: ['php'], install: debian('php-cli'), command: ['php', '{file}'] },
]
