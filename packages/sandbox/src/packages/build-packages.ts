import { createHash } from 'node:crypto'
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import type { PackageKind } from '@gantry/core/internal/runtimes/runtime'
import type { Runtimes } from '@gantry/core/internal/runtimes/runtimes'
import { beginBuild, findLayer, isIntact, keepLayer, type Layer, removeTree } from './layer-store.ts'
import {
  buildDigest,
  type Lock,
  nodeDependencies,
  nodeLockText,
  pythonLockText,
  readLock,
  writeLock,
} from './lock-files.ts'
import {
  type ClientCommand,
  clientFailure,
  describePython,
  findNpm,
  findPip,
  type PythonTarget,
  readDescription,
  runClient,
  targetText,
  unavailable,
} from './package-clients.ts'
import type { PackageSource } from './package-lists.ts'

export interface BuildOptions {
  /** Chooses the packages anew and replaces the lock file. */
  readonly update: boolean
  readonly signal: AbortSignal
  /** Says what is done, such as `downloading 3 of 13`. */
  onProgress(step: string): void
  /** The Python of the sandboxes. */
  pythonTarget(): Promise<PythonTarget>
}

/** What a build made or found. */
export interface BuiltPackages {
  readonly kind: PackageKind
  readonly layer: Layer
  /** False when the layer was there already. */
  readonly built: boolean
  /** Whether the lock file was written. */
  readonly locked: boolean
  readonly warnings: readonly string[]
}

/**
 * Builds the layer of one list: chooses packages where there is no lock file, writes it, and unpacks what it names, with its
 * hashes. No code of a package runs: only wheels are taken, and npm runs no scripts.
 * - Concurrency: any number of builds at once; each has a folder of its own.
 * - Errors: CONFIG_INVALID for the list or its lock, RUNTIME_UNAVAILABLE for what a client could not do.
 */
export async function buildPackages(source: PackageSource, options: BuildOptions): Promise<BuiltPackages> {
  const known = options.update ? undefined : await readLock(source)
  if (known !== undefined) {
    const there = await findLayer(source.store, source.kind, buildDigest(source, known))
    if (there !== undefined) {
      if (await isIntact(there, { thorough: true })) {
        return { kind: source.kind, layer: there, built: false, locked: false, warnings: [] }
      }
      options.onProgress('the built packages were changed since; building them again')
      await removeTree(there.folder)
    }
  }
  const folder = await beginBuild(source.store)
  try {
    const made = await (source.kind === 'python' ? buildPython : buildNode)(source, known, folder, options)
    const { lock, layer, warnings, target } = made
    const facts = { kind: source.kind, packages: lock.count, ...(target === undefined ? {} : { target }) }
    const kept = await keepLayer(source.store, buildDigest(source, lock), layer, facts)
    return { kind: source.kind, layer: kept, built: true, locked: known === undefined, warnings }
  } finally {
    await removeTree(folder)
  }
}

interface Made {
  readonly lock: Lock
  /** The folder that becomes the layer. */
  readonly layer: string
  readonly warnings: readonly string[]
  readonly target?: string
}

/** Asks a sandbox which Python it has, because it may not be the host's. */
export async function pythonOfSandboxes(runtimes: Pick<Runtimes, 'run'>, signal: AbortSignal): Promise<PythonTarget> {
  const program = { kind: 'code', language: 'python', code: describePython } as const
  const { outcome } = await runtimes.run({ program, runtime: 'process' }, signal)
  const facts = readDescription(new TextDecoder().decode(outcome.stdout.bytes))
  if (facts === undefined) throw unavailable('The Python of the sandboxes did not say which version it is.')
  return facts
}

const quiet = ['--disable-pip-version-check', '--no-input', '--progress-bar', 'off'] as const
const onlyWheels = ['--only-binary', ':all:'] as const

async function buildPython(
  source: PackageSource,
  known: Lock | undefined,
  folder: string,
  options: BuildOptions,
): Promise<Made> {
  const target = await options.pythonTarget()
  const targetName = targetText(target)
  if (known?.target !== undefined && known.target !== targetName) {
    throw new ToolError(
      'CONFIG_INVALID',
      `The lock file ${source.lock} is for ${known.target}, and the sandboxes here have ${targetName}. Name another lock file in runtimes.python.lock for this machine, or choose anew with --update.`,
    )
  }
  const work = join(folder, 'work')
  const wheels = join(folder, 'wheels')
  await Promise.all([mkdir(work), mkdir(wheels)])
  const pip = await findPip(target, { folder: work, signal: options.signal })
  const lock = known ?? (await choosePython(source, pip, { work, wheels, targetName }, options))
  const lockFile = join(folder, 'lock.txt')
  await writeFile(lockFile, lock.text)
  const layer = join(folder, 'layer')
  const site = join(layer, 'lib', `python${target.version}`, 'site-packages')
  await mkdir(site, { recursive: true })
  // What was just chosen is there already.
  const from = known === undefined ? ['--no-index', '--find-links', wheels] : []
  const place = [...from, '--no-deps', '--require-hashes', '--no-compile', '--no-user', '--target', site]
  const verb = known === undefined ? 'unpacking' : 'downloading'
  const stepOf = (_name: string, done: number): string => `${verb} ${Math.min(done, lock.count)} of ${lock.count}`
  await runPip([...pip, 'install', ...quiet, ...onlyWheels, ...place, '-r', lockFile], work, stepOf, options)
  await compileLayer(pip, layer, work, options)
  return { lock, layer, warnings: [], target: targetName }
}

interface PythonPlaces {
  readonly work: string
  readonly wheels: string
  readonly targetName: string
}

/** Lets pip choose versions, then locks the files that it got. */
async function choosePython(
  source: PackageSource,
  pip: ClientCommand,
  { work, wheels, targetName }: PythonPlaces,
  options: BuildOptions,
): Promise<Lock> {
  const list = join(work, 'requirements.txt')
  await writeFile(list, `${source.list.join('\n')}\n`)
  await runPip(
    [...pip, 'download', ...quiet, ...onlyWheels, '-d', wheels, '-r', list],
    work,
    (name) => `choosing packages: ${name}`,
    options,
  )
  const files = await readdir(wheels)
  const locked = files.map(async (file) => {
    const [name = '', version = ''] = file.split('-')
    const sha256 = createHash('sha256')
      .update(await readFile(join(wheels, file)))
      .digest('hex')
    return { name, version, sha256 }
  })
  return writeLock(source, pythonLockText(source, targetName, await Promise.all(locked)))
}

async function runPip(
  command: ClientCommand,
  folder: string,
  stepOf: (name: string, done: number) => string,
  options: BuildOptions,
): Promise<void> {
  let done = 0
  const onLine = (line: string): void => {
    const [, name] = /^(?:Collecting |Processing (?:\S*\/)?)([A-Za-z0-9._-]+)/.exec(line) ?? []
    if (name === undefined) return
    done += 1
    options.onProgress(stepOf(name, done))
  }
  const end = await runClient(command, {
    folder,
    signal: options.signal,
    onLine,
  })
  if (end.code !== 0) throw clientFailure('pip', end)
}

/** Compiled ahead, because sandboxes cannot write to the layer; by hash without a check, because it does not change. */
async function compileLayer(pip: ClientCommand, layer: string, folder: string, options: BuildOptions): Promise<void> {
  options.onProgress('compiling')
  const python = pip.includes('--python') ? pip.at(-1) : pip[0]
  const how = [
    '-m',
    'compileall',
    '-q',
    '-j',
    '0',
    '--invalidation-mode',
    'unchecked-hash',
    '-s',
    layer,
    '-p',
    '/gantry/python',
  ]
  // Files that are not of this Python, such as templates, do not compile and are left as they are.
  await runClient([python ?? 'python3', '-I', ...how, layer], { folder, signal: options.signal })
}

async function buildNode(
  source: PackageSource,
  known: Lock | undefined,
  folder: string,
  options: BuildOptions,
): Promise<Made> {
  const npm = await findNpm()
  const work = join(folder, 'work')
  await mkdir(work)
  const dependencies = nodeDependencies(source)
  await writeFile(join(work, 'package.json'), JSON.stringify({ name: 'gantry-packages', private: true, dependencies }))
  const lockFile = join(work, 'package-lock.json')
  const usual = ['--ignore-scripts', '--no-audit', '--no-fund', '--no-update-notifier', '--omit=dev', '--no-progress']
  const run = async (...args: readonly string[]): Promise<void> => {
    const end = await runClient([...npm, ...args, ...usual], { folder: work, signal: options.signal })
    if (end.code !== 0) throw clientFailure('npm', end)
  }
  if (known === undefined) {
    options.onProgress('choosing packages')
    await run('install', '--package-lock-only')
  }
  const lock = known ?? (await writeLock(source, nodeLockText(source, await readFile(lockFile, 'utf8'))))
  await writeFile(lockFile, lock.text)
  options.onProgress(`unpacking ${lock.count} packages`)
  await run('ci', '--no-bin-links')
  const layer = join(folder, 'layer')
  await rename(join(work, 'node_modules'), layer)
  await rm(join(layer, '.package-lock.json'), { force: true })
  return { lock, layer, warnings: scriptWarnings(lock) }
}

/** Packages that expect to run a script after they are unpacked may not work without it. */
function scriptWarnings({ text }: Lock): readonly string[] {
  const { packages } = JSON.parse(text) as { readonly packages?: object }
  const names = Object.entries(packages ?? {}).flatMap(([place, entry]) =>
    isObject(entry) && entry.hasInstallScript === true ? [place.slice(place.lastIndexOf('node_modules/') + 13)] : [],
  )
  if (names.length === 0) return []
  return [`${names.join(', ')} has an install script, which was not run; what it would make is missing.`]
}
