import { ToolError } from '@gantry/contract'
import { quote } from '@gantry/core/internal/ids/quote'
import type { Refusal } from '@gantry/core/internal/runtimes/runtime'
import { nearest } from '@gantry/core/internal/search/near'
import { type Command, checkLanguage, type Language } from './language.ts'

export type { Language } from './language.ts'

/** A row as it is given to `createLanguages`. */
export type LanguageRow = Language

/** The languages that code can be in. */
export interface Languages {
  /** Each under its one name. */
  readonly all: readonly Language[]
  /** By name or by another name, in any case. Throws INPUT_INVALID at `/language` with the nearest names. */
  get(name: string): Language
}

/** Which languages a root file system has the programs for, and why it has not those of the others, by name. */
export interface LanguagesFound {
  readonly available: readonly string[]
  /** Those of them whose interpreter waits for code, and can keep its state. */
  readonly waiting: readonly string[]
  /** Those of them whose programs can ask their host while they run. */
  readonly asking: readonly string[]
  readonly missing: ReadonlyMap<string, Refusal>
}

/** Folders of a root file system that programs are looked for in, and the PATH of what runs there. */
export const programFolders = ['/usr/local/bin', '/usr/bin', '/bin'] as const

/**
 * The built-in languages and further ones; a row takes the place of a built-in one of its name.
 * Throws CONFIG_INVALID for rows that are wrong or share a name.
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

/** Looks for the programs of each language; `has` says whether a path is there, inside of the root file system. */
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
  const message = `The name ${quote(name)} is that of two languages, ${other.name} and ${row.name}.`
  return new ToolError('CONFIG_INVALID', message, { details: { issues: [{ path: '', message }] } })
}

/** Node's experiments are said to be some on stderr; fewer helpers leave more of a limit on processes to the program. */
function nodeDriver(language: string): Command {
  return ['{node}', '--disable-warning=ExperimentalWarning', '--v8-pool-size=1', '{drivers}/node.mjs', language]
}

function debian(...packages: readonly string[]): string {
  return `Install it in the root file system of the sandboxes; on Debian: apt-get install ${packages.join(' ')}.`
}

/**
 * Languages that need no setting up but their programs in the root file system; those after bash are usually not there.
 * What a compiler makes lies beside the code, where nothing is brought out from.
 */
const builtInLanguages: readonly Language[] = [
  {
    name: 'python',
    aliases: ['py', 'python3'],
    file: 'main.py',
    needs: ['python3'],
    install: debian('python3'),
    // Without -I or -E: then PYTHONHASHSEED would not count, and nothing else is in the environment at that time.
    driver: ['python3', '-s', '-B', '-X', 'utf8', '{drivers}/python.py'],
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
    // Variables as words of `env`, because only words know where the code lies; nothing is ever downloaded.
    compile: [
      'env',
      'GOCACHE={file}.cache',
      'GOPATH={file}.path',
      ...['GOPROXY=off', 'GOTOOLCHAIN=local', 'GOFLAGS=-mod=mod', 'GOTELEMETRY=off', 'CGO_ENABLED=0'],
      ...['go', 'build', '-o', '{file}.out', '{file}'],
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
    // One file is compiled in memory, whatever its class is called.
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
