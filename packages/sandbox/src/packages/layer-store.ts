import { createHash } from 'node:crypto'
import { createReadStream, existsSync } from 'node:fs'
import { chmod, lstat, mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { isObject, isText } from '@gantry/contract/internal/json'
import { codeOf, isAbsent } from '@gantry/core/internal/files/private-file'
import type { PackageKind } from '@gantry/core/internal/runtimes/runtime'
import { ownName, stateOf } from '../process/sandbox-root.ts'

/**
 * Built packages in one folder: `<digest>/`, read-only and named by the SHA-256 of its content; `<kind>-<build>.json`, which
 * says what was built from which lock; `.building-<owner>/`, a build that is running; `.used-<digest>.<owner>`, a process
 * whose sandboxes mount a layer.
 * - Concurrency: any number of processes; a layer and its record appear as a whole, by a rename.
 */
export interface LayerRecord {
  readonly kind: PackageKind
  /** SHA-256 of the content, and the name of the folder. */
  readonly digest: string
  /** SHA-256 of the names, sizes, modes and times, which is checked where reading all files would take too long. */
  readonly stamp: string
  readonly files: number
  readonly bytes: number
  readonly packages: number
  readonly target?: string
  readonly builtAt: string
}

/** A layer that is there. */
export interface Layer extends LayerRecord {
  readonly folder: string
}

const digestForm = /^[0-9a-f]{64}$/
const recordForm = /^(python|node)-[0-9a-f]{64}\.json$/

function recordFile(store: string, kind: PackageKind, build: string): string {
  return join(store, `${kind}-${build}.json`)
}

/** Returns what was built from a lock; undefined when nothing was, or its folder is gone. */
export async function findLayer(store: string, kind: PackageKind, build: string): Promise<Layer | undefined> {
  const record = await readRecord(recordFile(store, kind, build))
  if (record === undefined || record.kind !== kind) return undefined
  const folder = join(store, record.digest)
  return existsSync(folder) ? { ...record, folder } : undefined
}

async function readRecord(file: string): Promise<LayerRecord | undefined> {
  try {
    const record: unknown = JSON.parse(await readFile(file, 'utf8'))
    const isWhole = isObject(record) && isText(record.digest) && digestForm.test(record.digest) && isText(record.stamp)
    return isWhole ? (record as object as LayerRecord) : undefined
  } catch (error) {
    if (isAbsent(error) || error instanceof SyntaxError) return undefined
    throw error
  }
}

/** A private folder for one build. Folders of builds that were killed are removed first. */
export async function beginBuild(store: string): Promise<string> {
  await mkdir(store, { recursive: true, mode: 0o700 })
  for (const name of await readdir(store)) {
    if (name.startsWith(building) && stateOf(name.slice(building.length)) === 'dead')
      await removeTree(join(store, name))
  }
  const folder = join(store, `${building}${ownName()}`)
  await mkdir(folder, { mode: 0o700 })
  return folder
}

const building = '.building-'
const used = '.used-'

type Facts = Pick<LayerRecord, 'kind' | 'packages' | 'target'>

/** Makes a folder of a build read-only and moves it to its place. Another build of the same content may be there already. */
export async function keepLayer(store: string, build: string, folder: string, facts: Facts): Promise<Layer> {
  const digest = await digestOf(folder)
  const place = join(store, digest)
  await closeTree(folder)
  const moved = await rename(folder, place).then(
    () => true,
    (error: unknown) => {
      if (!['EEXIST', 'ENOTEMPTY'].includes(codeOf(error) ?? '')) throw error
      return false
    },
  )
  // Only now, because a folder is moved by who may write to it.
  if (moved) await chmod(place, 0o555)
  const { stamp, files, bytes } = await stampOf(place)
  const record: LayerRecord = { ...facts, digest, stamp, files, bytes, builtAt: new Date().toISOString() }
  const file = recordFile(store, facts.kind, build)
  const beside = `${file}.${ownName()}`
  await writeFile(beside, `${JSON.stringify(record)}\n`, { mode: 0o644, flag: 'wx' })
  await rename(beside, file)
  return { ...record, folder: place }
}

/** Whether a layer is as it was built: every byte of it, or only names, sizes, modes and times. */
export async function isIntact(
  { folder, digest, stamp }: Layer,
  { thorough }: { thorough: boolean },
): Promise<boolean> {
  try {
    if ((await stampOf(folder)).stamp !== stamp) return false
    return !thorough || (await digestOf(folder)) === digest
  } catch (error) {
    // A link or a device was added, or something was removed meanwhile.
    if (error instanceof NotAFile || isAbsent(error)) return false
    throw error
  }
}

/** Keeps `prune` of other processes from removing a layer; returns how to release it. */
export async function useLayer(store: string, { digest }: Layer): Promise<() => Promise<void>> {
  const file = join(store, `${used}${digest}.${ownName()}`)
  // A folder that cannot be written holds no layer that could be removed.
  const made = await writeFile(file, '', { flag: 'wx' }).then(
    () => true,
    () => false,
  )
  return async () => {
    if (made) await rm(file, { force: true })
  }
}

/** What `pruneLayers` did. */
export interface PrunedLayers {
  readonly removed: readonly string[]
  /** Layers that no configured lock names and that a process still uses. */
  readonly kept: readonly string[]
}

/** Removes layers that no build of `current` is made from, unless a living process uses them, and what killed builds left. */
export async function pruneLayers(
  store: string,
  current: readonly { kind: PackageKind; build: string }[],
): Promise<PrunedLayers> {
  const names = await readdir(store).catch((error: unknown) => {
    if (isAbsent(error)) return []
    throw error
  })
  const wanted = new Set(current.map(({ kind, build }) => `${kind}-${build}.json`))
  const held = new Set<string>()
  for (const name of names.filter((each) => recordForm.test(each))) {
    const record = wanted.has(name) ? await readRecord(join(store, name)) : undefined
    if (record === undefined) await rm(join(store, name), { force: true })
    else held.add(record.digest)
  }
  const inUse = new Set<string>()
  for (const name of names.filter((each) => each.startsWith(used))) {
    const [digest = '', owner = ''] = name.slice(used.length).split('.')
    if (stateOf(owner) === 'dead') await rm(join(store, name), { force: true })
    else inUse.add(digest)
  }
  const removed: string[] = []
  const kept: string[] = []
  for (const name of names) {
    const isLeft = name.startsWith(building) && stateOf(name.slice(building.length)) === 'dead'
    const isOld = digestForm.test(name) && !held.has(name)
    if (isOld && inUse.has(name)) kept.push(name)
    else if (isOld || isLeft) {
      await removeTree(join(store, name))
      removed.push(name)
    }
  }
  return { removed, kept }
}

/** Folders of a layer cannot be written, so they are opened first. */
export async function removeTree(folder: string): Promise<void> {
  const open = async (at: string): Promise<void> => {
    await chmod(at, 0o700)
    for (const entry of await readdir(at, { withFileTypes: true })) {
      if (entry.isDirectory()) await open(join(at, entry.name))
    }
  }
  await open(folder).catch((error: unknown) => {
    if (!isAbsent(error)) throw error
  })
  await rm(folder, { recursive: true, force: true })
}

class NotAFile extends Error {}

/** The paths of all files in a folder, sorted, so that the same content is read in the same order. */
async function filesIn(folder: string): Promise<readonly string[]> {
  const found: string[] = []
  const walk = async (at: string): Promise<void> => {
    for (const entry of await readdir(join(folder, at), { withFileTypes: true })) {
      const path = at === '' ? entry.name : `${at}/${entry.name}`
      if (entry.isDirectory()) await walk(path)
      else if (entry.isFile()) found.push(path)
      else throw new NotAFile(`${path} is neither a file nor a folder.`)
    }
  }
  await walk('')
  return found.toSorted()
}

async function digestOf(folder: string): Promise<string> {
  const all = createHash('sha256')
  for (const path of await filesIn(folder)) {
    const one = createHash('sha256')
    await pipeline(createReadStream(join(folder, path)), one)
    all.update(JSON.stringify([path, one.digest('hex')]))
  }
  return all.digest('hex')
}

/** Enough to keep the threads of the file system busy. */
const atOnce = 256

async function stampOf(folder: string): Promise<Pick<LayerRecord, 'stamp' | 'files' | 'bytes'>> {
  const all = createHash('sha256')
  let bytes = 0
  const paths = await filesIn(folder)
  for (let from = 0; from < paths.length; from += atOnce) {
    const some = paths.slice(from, from + atOnce)
    const found = await Promise.all(some.map((path) => lstat(join(folder, path))))
    for (const [index, { size, mode, mtimeMs }] of found.entries()) {
      bytes += size
      all.update(JSON.stringify([some[index], size, mode & 0o777, Math.floor(mtimeMs)]))
    }
  }
  return { stamp: all.digest('hex'), files: paths.length, bytes }
}

/** Every file readable, nothing writable. The folder itself stays open, because it is moved. */
async function closeTree(folder: string): Promise<void> {
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) await closeTree(path)
    await chmod(path, entry.isDirectory() ? 0o555 : 0o444)
  }
}
