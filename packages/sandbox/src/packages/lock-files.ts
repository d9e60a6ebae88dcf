import { createHash } from 'node:crypto'
import { rename, rm, writeFile } from 'node:fs/promises'
import { type Json, type JsonObject, ToolError } from '@gantry/contract'
import { isObject, isText } from '@gantry/contract/internal/json'
import { isAbsent, readBounded } from '@gantry/core/internal/files/private-file'
import { quote } from '@gantry/core/internal/ids/quote'
import { listDigest, type PackageSource } from './package-lists.ts'

/**
 * The lock file of a list: which packages were chosen, with their hashes. It is committed with the configuration. That of
 * Python is a requirements file which pip itself reads, that of Node.js a package-lock.json.
 */
export interface Lock {
  readonly text: string
  /** What the packages are for, as `cpython 3.11 x86_64 glibc`; of Python only, whose files differ by interpreter. */
  readonly target?: string
  /** The number of packages. */
  readonly count: number
}

const head = '# Locked by `gantry runtime build packages`. Commit this file; renew it with --update.'

/** Five hundred packages with their dependencies and all hashes have less. */
const mostBytes = 16_777_216

/** Reads the lock of a list; undefined when there is none. Rejects with CONFIG_INVALID when it is not of this list. */
export async function readLock(source: PackageSource): Promise<Lock | undefined> {
  const found = await readBounded(source.lock, mostBytes).catch((error: unknown) => {
    if (isAbsent(error)) return undefined
    throw wrong(source, 'cannot be read', error)
  })
  if (found === undefined) return undefined
  if (found.state === 'not-a-file') throw wrong(source, 'is not a regular file')
  if (found.state === 'too-long') throw wrong(source, `has more than ${mostBytes} bytes`)
  const text = found.bytes.toString()
  return source.kind === 'python' ? pythonLock(source, text) : nodeLock(source, text)
}

/** Replaces the lock file as a whole, so that a build that is killed leaves the old one. */
export async function writeLock(source: PackageSource, text: string): Promise<Lock> {
  const made = source.kind === 'python' ? pythonLock(source, text) : nodeLock(source, text)
  const beside = `${source.lock}.${process.pid}.tmp`
  try {
    await writeFile(beside, text, { flag: 'wx', mode: 0o644 })
    await rename(beside, source.lock)
  } catch (error) {
    await rm(beside, { force: true })
    throw wrong(source, 'cannot be written', error)
  }
  return made
}

/** One package file that was chosen. */
export interface LockedWheel {
  readonly name: string
  readonly version: string
  readonly sha256: string
}

export function pythonLockText(source: PackageSource, target: string, wheels: readonly LockedWheel[]): string {
  const lines = wheels.map(({ name, version, sha256 }) => `${name}==${version} --hash=sha256:${sha256}`).toSorted()
  return [head, `# target: ${target}`, `# list: ${listDigest(source)}`, ...lines, ''].join('\n')
}

const lockedLine = /^[A-Za-z0-9._-]+==[A-Za-z0-9.!+_-]+ --hash=sha256:[0-9a-f]{64}$/

/** Nothing but names, versions and hashes, because pip would follow options and URLs in it. */
function pythonLock(source: PackageSource, text: string): Lock {
  const lines = text.split('\n').filter((line) => line !== '')
  const target = lines.find((line) => line.startsWith('# target: '))?.slice('# target: '.length)
  const packages = lines.filter((line) => !line.startsWith('#'))
  const bad = packages.find((line) => !lockedLine.test(line))
  if (bad !== undefined) throw wrong(source, `has a line that is not a package with its hash: ${quote(bad)}`)
  if (target === undefined || packages.length === 0) throw wrong(source, 'is not a lock file of Python packages')
  if (!lines.includes(`# list: ${listDigest(source)}`)) throw outdated(source)
  return { text, target, count: packages.length }
}

/** Removes where npm found each package: its own configuration says that, and the hashes say which one it must be. */
export function nodeLockText(source: PackageSource, content: string): string {
  const lock = parse(source, content)
  const packages = Object.entries(isObject(lock.packages) ? lock.packages : {}).map(([place, entry]) => {
    if (!isObject(entry)) return [place, entry] as const
    const { resolved, ...rest } = entry
    return [place, isText(resolved) && !/^https?:/.test(resolved) ? entry : rest] as const
  })
  return `${JSON.stringify({ ...lock, packages: Object.fromEntries(packages) }, null, 2)}\n`
}

function nodeLock(source: PackageSource, text: string): Lock {
  const { packages } = parse(source, text)
  if (!isObject(packages)) throw wrong(source, 'is not a package-lock.json')
  const { '': root, ...others } = packages
  const wanted = isObject(root) && isObject(root.dependencies) ? root.dependencies : {}
  if (JSON.stringify(sorted(wanted)) !== JSON.stringify(sorted(nodeDependencies(source)))) throw outdated(source)
  for (const [place, entry] of Object.entries(others)) {
    const { integrity, resolved, link }: JsonObject = isObject(entry) ? entry : {}
    const isHashed = isText(integrity) && /^sha(?:512|384|256)-[A-Za-z0-9+/=]+$/.test(integrity)
    if (isHashed && link === undefined && resolved === undefined) continue
    throw wrong(source, `has ${quote(place)}, which is not a package of a registry with its hash`)
  }
  return { text, count: Object.keys(others).length }
}

/** The list as the `dependencies` of a package.json. */
export function nodeDependencies({ list }: Pick<PackageSource, 'list'>): { readonly [name: string]: string } {
  const pairs = list.map((line) => {
    const at = line.indexOf('@', 1)
    return at === -1 ? ([line, '*'] as const) : ([line.slice(0, at), line.slice(at + 1)] as const)
  })
  return Object.fromEntries(pairs)
}

function sorted(record: object): readonly (readonly [string, unknown])[] {
  return Object.entries(record).toSorted(([one], [other]) => (one < other ? -1 : 1))
}

function parse(source: PackageSource, text: string): JsonObject {
  try {
    const value: Json = JSON.parse(text)
    if (isObject(value)) return value
  } catch {
    // The same error as for any other value.
  }
  throw wrong(source, 'is not a package-lock.json')
}

/** The remedy of most errors about packages. */
export const buildCommand = 'gantry runtime build packages'

function outdated(source: PackageSource): ToolError {
  const renew = `run \`${buildCommand} --update\` to choose the packages anew`
  return wrong(source, `is the lock of another list than runtimes.${source.kind}.packages; ${renew}`)
}

function wrong({ kind, lock }: PackageSource, words: string, cause?: unknown): ToolError {
  const issues = [{ path: `/runtimes/${kind}/lock`, message: `names ${lock}, which ${words}` }]
  return new ToolError('CONFIG_INVALID', `The lock file ${lock} ${words}.`, {
    details: { issues },
    ...(cause === undefined ? {} : { cause }),
  })
}

/** Identifies what is built from a lock on this kind of machine. */
export function buildDigest({ kind }: Pick<PackageSource, 'kind'>, { text }: Lock): string {
  const facts = ['gantry packages 1', kind, process.platform, process.arch, text]
  return createHash('sha256').update(JSON.stringify(facts)).digest('hex')
}
