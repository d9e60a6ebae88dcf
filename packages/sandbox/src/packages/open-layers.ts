import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { statSync } from 'node:fs'
import { readlink, realpath, rename, stat } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { promisify } from 'node:util'
import { type Issue, ToolError } from '@gantry/contract'
import { codeOf } from '@gantry/core/internal/files/private-file'
import type { PackageKind, Refusal } from '@gantry/core/internal/runtimes/runtime'
import { programFolders } from '../languages/languages.ts'
import { makeFolder, unreachable } from '../process/file-access.ts'
import { openSandboxRoot, type SandboxRoot } from '../process/sandbox-root.ts'
import { findLayer, isIntact, type Layer, type PrunedLayers, pruneLayers, removeTree, useLayer } from './layer-store.ts'
import { buildCommand, buildDigest, readLock } from './lock-files.ts'
import { configuredKinds, type PackageOptions, type PackageSource, readPackages } from './package-lists.ts'

/** The layers of one runtime. */
export interface OpenLayers {
  /** What can be mounted. */
  readonly layers: ReadonlyMap<PackageKind, Layer>
  /** What is configured and cannot be mounted, and why. */
  readonly missing: ReadonlyMap<PackageKind, Refusal>
  /** Whether something that is missing may be there now. Cheap. */
  changed(): boolean
  release(): Promise<void>
}

/** Opens the layers of all configured lists. A list without one is not an error, because other programs do not need it. */
export async function openLayers(options: PackageOptions, rootfs: string): Promise<OpenLayers> {
  const layers = new Map<PackageKind, Layer>()
  const missing = new Map<PackageKind, Refusal>()
  const releases: (() => Promise<void>)[] = []
  const watched: string[] = []
  for (const kind of configuredKinds(options)) {
    const found = await openLayer(options, kind, rootfs, watched).catch((error: unknown) => refusalOf(kind, error))
    if ('reason' in found) missing.set(kind, found)
    else {
      layers.set(kind, found.layer)
      releases.push(await useLayer(found.source.store, found.layer))
    }
  }
  const before = watched.map(timeOf)
  return {
    layers,
    missing,
    changed: () => missing.size > 0 && watched.some((path, index) => timeOf(path) !== before[index]),
    release: async () => void (await Promise.all(releases.map((release) => release()))),
  }
}

function timeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0
}

interface Found {
  readonly source: PackageSource
  readonly layer: Layer
}

/** What `gantry config check` and `gantry doctor` say about one list. */
export interface PackageState {
  readonly kind: PackageKind
  /** SHA-256 of the layer; absent when it cannot be used. */
  readonly digest?: string
  readonly packages?: number
  readonly bytes?: number
  readonly target?: string
  readonly problem?: Refusal
}

/** Every wrong list and lock file. */
export async function packageIssues(options: PackageOptions): Promise<readonly Issue[]> {
  const found: Issue[] = []
  for (const kind of configuredKinds(options)) {
    try {
      const source = await readPackages(options, kind)
      if (source !== undefined) await readLock(source)
    } catch (error) {
      if (!ToolError.is(error) || error.details?.issues === undefined) throw error
      found.push(...error.details.issues)
    }
  }
  return found
}

/** The state of each configured list; `thorough` reads every file of a layer. */
export async function packageStates(
  options: PackageOptions & { readonly rootfs?: string },
  { thorough = false }: { readonly thorough?: boolean } = {},
): Promise<readonly PackageState[]> {
  const states: PackageState[] = []
  for (const kind of configuredKinds(options)) {
    const found = await openLayer(options, kind, options.rootfs ?? '/', [], thorough).catch((error: unknown) =>
      refusalOf(kind, error),
    )
    if ('reason' in found) states.push({ kind, problem: found })
    else {
      const { digest, packages, bytes, target } = found.layer
      states.push({ kind, digest: `sha256:${digest}`, packages, bytes, ...(target === undefined ? {} : { target }) })
    }
  }
  return states
}

async function openLayer(
  options: PackageOptions,
  kind: PackageKind,
  rootfs: string,
  watched: string[],
  thorough = false,
): Promise<Found | Refusal> {
  const source = await readPackages(options, kind)
  if (source === undefined) return unbuilt(kind, 'are not configured')
  watched.push(source.lock, source.store)
  const lock = await readLock(source)
  if (lock === undefined) return unbuilt(kind, 'are not built: there is no lock file')
  const fault = await storeFault(source.store)
  if (fault !== undefined) {
    const remedy = 'Name a folder in runtimes.packagesFolder that only you can write.'
    return { reason: `The folder of packages, ${source.store}, ${fault}.`, remedy }
  }
  const layer = await findLayer(source.store, kind, buildDigest(source, lock))
  if (layer === undefined) return unbuilt(kind, 'are not built on this machine')
  if (!(await isIntact(layer, { thorough })))
    return unbuilt(kind, `were changed after they were built, in ${layer.folder}`)
  const version = kind === 'python' ? await pythonVersion(rootfs) : undefined
  const wanted = layer.target?.split(' ')[1]
  if (version !== undefined && wanted !== undefined && version !== wanted) {
    const reason = `The packages of runtimes.python.packages are built for Python ${wanted}, and the sandboxes have ${version}.`
    return { reason, remedy: `Run \`${buildCommand} --update\`.` }
  }
  return { source, layer }
}

const writableByOthers = 0o022

/** Who can write to the folder of packages could put other packages there. */
async function storeFault(store: string): Promise<string | undefined> {
  const stats = await stat(store).catch(() => undefined)
  if (stats === undefined) return undefined
  if ((stats.mode & writableByOthers) !== 0) return 'can be written by others'
  const own = process.getuid?.()
  return stats.uid === own || stats.uid === 0 ? undefined : `belongs to uid ${stats.uid}`
}

function unbuilt(kind: PackageKind, words: string): Refusal {
  return { reason: `The packages of runtimes.${kind}.packages ${words}.`, remedy: `Run \`${buildCommand}\`.` }
}

/** A wrong list or lock refuses the programs that need it, with the reason, and no others. */
function refusalOf(kind: PackageKind, error: unknown): Refusal {
  if (ToolError.is(error)) return { reason: error.message, remedy: `Correct that, then run \`${buildCommand}\`.` }
  const code = codeOf(error)
  if (code === undefined) throw error
  const reason = `The packages of runtimes.${kind}.packages cannot be read (${code}).`
  return { reason, remedy: 'Let the user of this process read runtimes.packagesFolder.' }
}

/** The version that the name of the program says; undefined where it says none. */
async function pythonVersion(rootfs: string): Promise<string | undefined> {
  for (const folder of programFolders) {
    const name = await readlink(join(rootfs, folder, 'python3')).catch((error: unknown) =>
      codeOf(error) === 'EINVAL' ? '' : undefined,
    )
    if (name === undefined) continue
    return /^python(\d+\.\d+)$/.exec(basename(name))?.[1]
  }
  return undefined
}

const run = promisify(execFile)

/** Removes what no lock file of the lists names, and copies that no process uses. */
export async function prunePackages(options: PackageOptions & { readonly root?: string }): Promise<PrunedLayers> {
  const sources: PackageSource[] = []
  const current: { kind: PackageKind; build: string }[] = []
  for (const kind of configuredKinds(options)) {
    const source = await readPackages(options, kind)
    if (source === undefined) continue
    sources.push(source)
    const lock = await readLock(source)
    if (lock !== undefined) current.push({ kind, build: buildDigest(source, lock) })
  }
  const [first] = sources
  const own = first === undefined ? { removed: [], kept: [] } : await pruneLayers(first.store, current)
  const root = await openSandboxRoot(options.root === undefined ? {} : { folder: options.root })
  try {
    if (root.privileged) await pruneLayers(copiesFolder(root.folder), [])
    return own
  } finally {
    await root.close()
  }
}

/** Where sandboxes read a layer. */
export interface PlacedLayer {
  readonly folder: string
  release(): Promise<void>
}

/** The folder of copies for sandboxes that cannot read the data folder. */
export function copiesFolder(root: string): string {
  return join(root, 'packages')
}

/**
 * Returns a folder under which sandboxes can read a layer: its own when they can, else a copy in the folder for sandboxes,
 * which all processes share. Hard links, where both are in one file system.
 */
export async function placeLayer(layer: Layer, root: Pick<SandboxRoot, 'folder' | 'privileged'>): Promise<PlacedLayer> {
  const real = await realpath(layer.folder)
  const isOpen = !root.privileged || (await unreachable(real, 'read')) === undefined
  if (isOpen) return { folder: real, release: async () => undefined }
  const shared = copiesFolder(root.folder)
  await makeFolder(shared, 0o711)
  const release = await useLayer(shared, layer)
  return { folder: await copyLayer(layer, real, shared), release }
}

async function copyLayer(layer: Layer, real: string, shared: string): Promise<string> {
  const place = join(shared, layer.digest)
  if (await isIntact({ ...layer, folder: place }, { thorough: false })) return place
  const beside = join(shared, `.copy-${randomBytes(6).toString('hex')}`)
  try {
    await copyTree(real, beside)
    // What was there is not whole: something cleaned up in it.
    await removeTree(place)
    await rename(beside, place).catch((error: unknown) => {
      if (!['EEXIST', 'ENOTEMPTY'].includes(codeOf(error) ?? '')) throw error
    })
  } finally {
    await removeTree(beside)
  }
  return place
}

async function copyTree(from: string, to: string): Promise<void> {
  try {
    await run('cp', ['-a', '-l', from, to])
  } catch {
    await removeTree(to)
    await run('cp', ['-a', from, to])
  }
}
