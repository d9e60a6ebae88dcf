import { createHash } from 'node:crypto'
import { resolve } from 'node:path'
import { type Issue, type JsonSchema, ToolError } from '@gantry/contract'
import { isObject, isText } from '@gantry/contract/internal/json'
import { isAbsent, readBounded } from '@gantry/core/internal/files/private-file'
import { quote } from '@gantry/core/internal/ids/quote'
import { type Check, either, text } from '@gantry/core/internal/options/option'
import { optionsCheck } from '@gantry/core/internal/options/options'
import type { PackageKind } from '@gantry/core/internal/runtimes/runtime'

/** Python packages that every Python sandbox finds. */
export interface PythonPackages {
  /** Requirements such as `numpy==2.1.3`, or the file that has one in each line. */
  readonly packages: readonly string[] | { readonly requirements: string }
  /** The lock file; `gantry.python.lock` when absent. */
  readonly lock?: string
}

/** npm packages that every sandbox with Node.js finds. */
export interface NodePackages {
  /** Packages such as `lodash@4.17.21`, or the package.json whose `dependencies` they are. */
  readonly packages: readonly string[] | { readonly manifest: string }
  /** The lock file; `gantry.node.lock` when absent. */
  readonly lock?: string
}

export interface PackageOptions {
  readonly python?: PythonPackages
  readonly node?: NodePackages
  /** Folder of the built packages; `.gantry/packages` when absent. */
  readonly packagesFolder?: string
}

/** One list as it is configured, with absolute paths. */
export interface PackageSource {
  readonly kind: PackageKind
  /** One requirement each, sorted and without repetition. */
  readonly list: readonly string[]
  readonly lock: string
  readonly store: string
}

export const packageKinds: readonly PackageKind[] = ['python', 'node']

/** The kinds that are configured. */
export function configuredKinds(options: PackageOptions): readonly PackageKind[] {
  return packageKinds.filter((kind) => options[kind] !== undefined)
}

/** Reads one list; undefined where the kind is not configured. Rejects with CONFIG_INVALID and every wrong line. */
export async function readPackages(options: PackageOptions, kind: PackageKind): Promise<PackageSource | undefined> {
  const given = options[kind]
  if (given === undefined) return undefined
  const { packages, lock = `gantry.${kind}.lock` } = given
  const list = isList(packages) ? packages : await readFileList(packages)
  return {
    kind,
    list: [...new Set(list.map((line) => line.trim()))].toSorted(),
    lock: resolve(lock),
    store: resolve(options.packagesFolder ?? '.gantry/packages'),
  }
}

/** Identifies a list in its lock file. */
export function listDigest({ list }: Pick<PackageSource, 'list'>): string {
  return `sha256:${createHash('sha256').update(JSON.stringify(list)).digest('hex')}`
}

type FileList = { readonly requirements: string } | { readonly manifest: string }

function isList(packages: readonly string[] | FileList): packages is readonly string[] {
  return Array.isArray(packages)
}

async function readFileList(packages: FileList): Promise<readonly string[]> {
  const [kind, member, file] =
    'requirements' in packages
      ? (['python', 'requirements', packages.requirements] as const)
      : (['node', 'manifest', packages.manifest] as const)
  const path = `/runtimes/${kind}/packages/${member}`
  const content = await readText(resolve(file), path)
  const lines = kind === 'python' ? requirementLines(content) : dependenciesOf(content, path)
  const issues = lines.flatMap(({ text: line, at }): Issue[] => {
    const fault = faults[kind](line)
    return fault === undefined ? [] : [{ path, message: `has a wrong entry at ${at}: ${shownLine(line)} ${fault}` }]
  })
  if (lines.length === 0) issues.push({ path, message: 'lists no package' })
  if (lines.length > mostPackages) issues.push({ path, message: `lists more than ${mostPackages} packages` })
  if (issues.length > 0) throw invalid(issues)
  return lines.map((line) => line.text)
}

const mostPackages = 500
const mostBytes = 262_144

async function readText(file: string, path: string): Promise<string> {
  const found = await readBounded(file, mostBytes).catch((cause) =>
    isAbsent(cause) ? 'does not exist' : 'cannot be read',
  )
  if (isText(found)) throw invalid([{ path, message: `names ${file}, which ${found}` }])
  if (found.state === 'read') return found.bytes.toString()
  const fault = found.state === 'too-long' ? `has more than ${mostBytes} bytes` : 'is not a regular file'
  throw invalid([{ path, message: `names ${file}, which ${fault}` }])
}

/** A wrong line for a message, without the user and password of a URL: lines of an index often hold a token. */
function shownLine(line: string): string {
  return quote(line.replaceAll(/:\/\/[^\s/]*@/g, '://[redacted]@'))
}

interface Line {
  readonly text: string
  readonly at: string
}

/** The lines of a requirements file without comments. */
function requirementLines(content: string): readonly Line[] {
  return content.split(/\r?\n/).flatMap((line, index) => {
    const requirement = line.replace(/(?:^|\s)#.*$/, '').trim()
    return requirement === '' ? [] : [{ text: requirement, at: `line ${index + 1}` }]
  })
}

function dependenciesOf(content: string, path: string): readonly Line[] {
  let manifest: unknown
  try {
    manifest = JSON.parse(content)
  } catch {
    throw invalid([{ path, message: 'is not JSON' }])
  }
  const dependencies = isObject(manifest) ? manifest.dependencies : undefined
  if (!isObject(dependencies)) return []
  return Object.entries(dependencies).map(([name, range]) => ({ text: `${name}@${range}`, at: `dependencies.${name}` }))
}

const pythonName = '[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?'
const pythonVersion = String.raw`(?:===|==|~=|!=|<=|>=|<|>)\s*[A-Za-z0-9.*+!_-]+`
const pythonForm = new RegExp(
  [
    String.raw`^${pythonName}\s*(?:\[\s*${pythonName}(?:\s*,\s*${pythonName})*\s*\])?`,
    String.raw`\s*(?:${pythonVersion}(?:\s*,\s*${pythonVersion})*)?`,
    String.raw`\s*(?:;\s*[A-Za-z0-9_ .'"<>=!~()+-]+)?$`,
  ].join(''),
)
const nodeForm = /^(?:@[a-z0-9~-][a-z0-9._~-]*\/)?[a-z0-9~-][a-z0-9._~-]*(?:@[0-9A-Za-z.^~<>=|*+ -]{1,100})?$/
const longest = 256

const faults: { readonly [Kind in PackageKind]: (line: string) => string | undefined } = {
  python(line) {
    if (line.length <= longest && pythonForm.test(line)) return undefined
    if (line.startsWith('-')) return 'is an option of pip; indexes and options belong in its own configuration'
    if (line.endsWith('\\')) return 'continues in the next line; write each requirement in one line'
    if (/:|\/|@/.test(line)) return 'is a URL or a path; only packages of an index are built'
    return 'is not a requirement such as numpy==2.1.3'
  },
  node(line) {
    if (line.length <= longest && nodeForm.test(line) && !/^[.-]/.test(line)) return undefined
    if (line.startsWith('-')) return 'is an option of npm; registries and options belong in its own configuration'
    if (/:|\/\/|^[./]|#/.test(line)) return 'is a URL, a path or an alias; only packages of a registry are built'
    return 'is not a package such as lodash@4.17.21'
  },
}

function listCheck(kind: PackageKind): Check {
  const issues = (value: unknown, path: string): readonly Issue[] => {
    if (!Array.isArray(value) || value.length === 0) return [{ path, message: 'must be a list of packages' }]
    if (value.length > mostPackages) return [{ path, message: `must not have more than ${mostPackages} packages` }]
    return value.flatMap((line: unknown, index): Issue[] => {
      const fault = isText(line) ? faults[kind](line.trim()) : 'is not a string'
      const shown = isText(line) ? `${shownLine(line)} ` : ''
      return fault === undefined ? [] : [{ path: `${path}/${index}`, message: `${shown}${fault}` }]
    })
  }
  const schema: JsonSchema = { type: 'array', items: { type: 'string' }, minItems: 1, maxItems: mostPackages }
  return { fits: (value) => issues(value, '').length === 0, issues, schema }
}

const pythonFile = optionsCheck<{ readonly requirements: string }>({
  members: { requirements: text(4_096) },
  required: ['requirements'],
})
const nodeFile = optionsCheck<{ readonly manifest: string }>({
  members: { manifest: text(4_096) },
  required: ['manifest'],
})

/** Checks a list or a file by what is given, so that a wrong line of a list is reported at its own path. */
function listOrFile(list: Check, file: Check): Check {
  const chosen = (value: unknown): Check => (Array.isArray(value) ? list : isObject(value) ? file : either(list, file))
  return {
    fits: (value) => chosen(value).fits(value),
    issues: (value, path) => chosen(value).issues(value, path),
    schema: { anyOf: [list.schema ?? {}, file.schema ?? {}] },
  }
}

/** The checks of the lists in `PackageOptions`, by kind. */
export const packageChecks: { readonly [Kind in PackageKind]: Check } = {
  python: optionsCheck<PythonPackages>({
    members: { packages: listOrFile(listCheck('python'), pythonFile), lock: text(4_096) },
    required: ['packages'],
  }),
  node: optionsCheck<NodePackages>({
    members: { packages: listOrFile(listCheck('node'), nodeFile), lock: text(4_096) },
    required: ['packages'],
  }),
}

function invalid(issues: readonly Issue[]): ToolError {
  const message = `Invalid packages: ${issues.map(({ path, message: words }) => `${path} ${words}`).join('; ')}.`
  return new ToolError('CONFIG_INVALID', message, { details: { issues } })
}
