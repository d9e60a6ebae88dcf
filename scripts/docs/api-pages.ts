import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, posix } from 'node:path'

/** The declaration of a public name: its text, or the Gantry package that exports it too. */
interface PublicName {
  readonly name: string
  readonly text?: string
  readonly from?: string
}

interface Module {
  /** Texts of declarations by name; overloads follow each other. */
  readonly declared: ReadonlyMap<string, readonly string[]>
  readonly exported: ReadonlyMap<string, Origin>
}

interface Origin {
  readonly name: string
  /** Absent if the module itself declares it. */
  readonly specifier?: string
}

/**
 * The pages of docs/api, file to text: names and signatures of every public entry of every package, so that review
 * shows their changes. They come from the compiler's declarations.
 */
export function apiPages(root: string): ReadonlyMap<string, string> {
  const folder = mkdtempSync(join(root, 'node_modules', '.cache', 'api-'))
  try {
    const packages = readdirSync(join(root, 'packages')).sort()
    const entries = new Map(packages.map((name) => [name, entriesOf(root, name)]))
    declare(root, folder)
    const modules = createModules(folder)
    const pages = packages.map((name) => [`docs/api/${name}.md`, pageOf(root, name, entries.get(name) ?? [], modules)])
    return new Map([...(pages as [string, string][]), ['docs/api/README.md', contents(root, packages)]])
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

interface Entry {
  /** As it is imported: `@gantry/core`. */
  readonly specifier: string
  readonly source: string
}

function manifestOf(root: string, name: string) {
  return JSON.parse(readFileSync(join(root, 'packages', name, 'package.json'), 'utf8')) as {
    readonly name: string
    readonly description: string
    readonly exports?: { readonly [path: string]: string }
  }
}

/** The entries without `internal`, which is for packages of this repository alone. */
function entriesOf(root: string, name: string): readonly Entry[] {
  const { name: specifier, exports = {} } = manifestOf(root, name)
  return Object.entries(exports)
    .filter(([path, source]) => !path.startsWith('./internal') && source.endsWith('.ts'))
    .map(([path, source]) => ({ specifier: specifier + path.slice(1), source: posix.join('packages', name, source) }))
}

/**
 * Writes the declarations of all packages to `folder`. Every source file is named as a root: the compiler emits none that
 * it first reaches through `node_modules/@gantry`, and the order depends on its threads.
 */
function declare(root: string, folder: string): void {
  const config = {
    extends: join(root, 'tsconfig.json'),
    compilerOptions: {
      noEmit: false,
      declaration: true,
      emitDeclarationOnly: true,
      removeComments: true,
      rootDir: root,
      outDir: folder,
      typeRoots: [join(root, 'node_modules/@types')],
    },
    include: [join(root, 'packages/*/src/**/*.ts')],
    exclude: [join(root, 'packages/*/src/**/*.test.ts'), join(root, 'packages/*/src/**/*.fixture.ts')],
  }
  const file = join(folder, 'tsconfig.json')
  writeFileSync(file, JSON.stringify(config))
  const tsc = join(root, 'node_modules/typescript/bin/tsc')
  const { status, stdout } = spawnSync(process.execPath, [tsc, '-p', file], { cwd: root, encoding: 'utf8' })
  if (status !== 0) throw new Error(`The declarations cannot be written:\n${stdout}`)
}

interface Modules {
  /** The public names of a declaration file, in order; names of other entries are on their own pages. */
  publicNames(entry: Entry): readonly PublicName[]
}

function createModules(folder: string): Modules {
  const known = new Map<string, Module>()
  const moduleOf = (file: string): Module => {
    const found = known.get(file) ?? parseDeclarations(readFileSync(join(folder, file), 'utf8'))
    known.set(file, found)
    return found
  }
  const find = (file: string, name: string): PublicName => {
    const { declared, exported } = moduleOf(file)
    const origin = exported.get(name)
    if (origin === undefined) throw new Error(`${file} does not export ${name}`)
    if (origin.specifier === undefined) {
      return { name, text: (declared.get(origin.name) ?? [`// ${origin.name}`]).join('\n') }
    }
    const target = fileOf(file, origin.specifier)
    if (target === undefined) return { name, from: origin.specifier }
    const found = find(target, origin.name)
    return origin.name === name ? found : { ...found, text: `${found.text}\n// exported as ${name}` }
  }
  const fileOf = (from: string, specifier: string): string | undefined => {
    const [, pack, path] = /^@gantry\/([a-z-]+)\/internal\/(.+)$/.exec(specifier) ?? []
    const file = pack === undefined ? posix.join(dirname(from), specifier) : `packages/${pack}/src/${path}.ts`
    if (pack === undefined && !specifier.startsWith('.')) return undefined
    const declarations = file.replace(/\.ts$/, '.d.ts')
    return existsSync(join(folder, declarations)) ? declarations : undefined
  }
  return {
    publicNames({ source }) {
      const file = source.replace(/\.ts$/, '.d.ts')
      const names = [...moduleOf(file).exported.keys()].sort(inOrder)
      return names.map((name) => ({ ...find(file, name), name }))
    },
  }
}

const opening =
  /^(?:export )?(?:declare )?(?:abstract )?(?:interface|type|function|const|class|namespace|enum)\*? (\w+)/

/** Reads a declaration file as the compiler prints it: an unindented line begins or ends a declaration. */
function parseDeclarations(text: string): Module {
  const declared = new Map<string, readonly string[]>()
  const exported = new Map<string, Origin>()
  const imported = new Map<string, Origin>()
  for (const statement of statementsOf(text)) {
    const list = /^(import|export) (?:type )?\{([^}]*)\}(?: from ['"]([^'"]+)['"])?;?$/s.exec(statement)
    if (list !== null) {
      const [, word, members = '', specifier] = list
      for (const member of members.split(',').map((each) => each.trim().replace(/^type /, ''))) {
        if (member === '') continue
        const [name = '', alias = name] = member.split(' as ')
        if (word === 'import') imported.set(alias, { name, ...(specifier === undefined ? {} : { specifier }) })
        else exported.set(alias, specifier === undefined ? (imported.get(name) ?? { name }) : { name, specifier })
      }
      continue
    }
    const name = opening.exec(statement)?.[1]
    if (name === undefined) continue
    const shown = statement.replace(/^export /, '').replace(/^declare /, '')
    declared.set(name, [...(declared.get(name) ?? []), shortened(name, shown)])
    if (statement.startsWith('export ')) exported.set(name, { name })
  }
  return { declared, exported }
}

/** A table that is too long to compare line by line is replaced by its digest. */
const mostTableLines = 60

function shortened(name: string, text: string): string {
  const { length } = text.split('\n')
  if (!text.startsWith('const ') || length <= mostTableLines) return text
  const digest = createHash('sha256').update(text).digest('hex').slice(0, 16)
  return `const ${name}: { … } // ${length} lines, sha256 ${digest}`
}

function statementsOf(text: string): readonly string[] {
  const statements: string[] = []
  let lines: string[] = []
  for (const line of text.split('\n')) {
    if (lines.length === 0 && !/^(?:import|export|declare|interface|type|class|function|const|abstract)\b/.test(line)) {
      continue
    }
    lines.push(line)
    if (!/^\S/.test(line) || !/[;}]$/.test(line) || depthOf(lines) > 0) continue
    statements.push(lines.join('\n'))
    lines = []
  }
  return statements
}

/** The number of open brackets; literal types contain only balanced ones. */
function depthOf(lines: readonly string[]): number {
  const plain = lines.join('\n').replaceAll(/'[^'\n]*'|"[^"\n]*"/g, '')
  return [...plain].reduce((depth, sign) => depth + ('{(['.includes(sign) ? 1 : '})]'.includes(sign) ? -1 : 0), 0)
}

function pageOf(root: string, name: string, entries: readonly Entry[], modules: Modules): string {
  const { name: title, description } = manifestOf(root, name)
  const parts = entries.map((entry) => {
    const names = modules.publicNames(entry)
    const own = names.flatMap(({ text }) => text ?? [])
    const others = Map.groupBy(
      names.filter(({ from }) => from !== undefined),
      ({ from }) => from ?? '',
    )
    const passed = [...others]
      .sort(([a], [b]) => inOrder(a, b))
      .map(([from, list]) => `From \`${from}\`: ${list.map((each) => `\`${each.name}\``).join(', ')}.`)
    const heading = `## \`${entry.specifier}\`\n\n${names.length} names.`
    return [heading, ...passed, ...(own.length === 0 ? [] : [`\`\`\`typescript\n${own.join('\n\n')}\n\`\`\``])].join(
      '\n\n',
    )
  })
  return `# ${title}\n\n${description}\n\n${generatedBy}\n\n${parts.length === 0 ? 'No public names.' : parts.join('\n\n')}\n`
}

const generatedBy = 'Written by `npm run api -- --write`; do not edit. A change here is a change of the public API.'

function contents(root: string, packages: readonly string[]): string {
  const rows = packages.map((name) => {
    const { name: title, description } = manifestOf(root, name)
    return `| [\`${title}\`](${name}.md) | ${description} |`
  })
  return `# The public API\n\nNames and signatures of every package. ${generatedBy} What is for what: [packages](../library.md#packages).\n\n| package | |\n| --- | --- |\n${rows.join('\n')}\n`
}

/** Compares by code units, so that the order is the same on every machine. */
function inOrder(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}
