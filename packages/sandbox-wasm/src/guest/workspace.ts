import { checkPath } from '@gantry/sandbox/internal/languages/file-path'

/** A file or folder of an in-memory workspace. It has no links, devices or owners. */
export type Entry = FileEntry | FolderEntry

export interface FileEntry {
  readonly kind: 'file'
  readonly id: number
  /** At least `size` long. */
  bytes: Uint8Array
  size: number
  changedMs: number
}

export interface FolderEntry {
  readonly kind: 'folder'
  readonly id: number
  readonly entries: Map<string, Entry>
  /** Number of parent folders; bounded, because trees are walked recursively. */
  depth: number
  changedMs: number
}

export type WorkspaceCode =
  | 'EEXIST'
  | 'EINVAL'
  | 'EISDIR'
  | 'ENAMETOOLONG'
  | 'ENOENT'
  | 'ENOSPC'
  | 'ENOTDIR'
  | 'ENOTEMPTY'

/** A failed operation, with the system's error code. */
export class WorkspaceError extends Error {
  readonly code: WorkspaceCode

  constructor(code: WorkspaceCode) {
    super(code)
    this.code = code
  }
}

/** The names of a path, relative to a folder. */
export type Segments = readonly string[]

/** Files of one sandbox, in memory. Bytes beyond the size are refused with ENOSPC. */
export interface Workspace {
  readonly root: FolderEntry
  /** Whether an operation failed with ENOSPC; the caller may reset it. */
  full: boolean
  find(from: FolderEntry, path: Segments): Entry | undefined
  /** The file under this name, created when it does not exist. */
  openFile(from: FolderEntry, path: Segments, make: 'never' | 'may' | 'must'): FileEntry
  makeFolder(from: FolderEntry, path: Segments): FolderEntry
  write(file: FileEntry, at: number, bytes: Uint8Array): void
  resize(file: FileEntry, size: number): void
  remove(from: FolderEntry, path: Segments, kind: Entry['kind']): void
  rename(from: FolderEntry, path: Segments, to: FolderEntry, target: Segments): void
}

/** Bytes charged for each entry in addition to its content, so that the number of entries is bounded too. */
const entryBytes = 1_024
const mostDepth = 32
const longestName = 255

export function createWorkspace(diskBytes: number, nowMs: () => number): Workspace {
  let [used, lastId] = [0, 0]

  const take = (bytes: number): void => {
    if (used + bytes > diskBytes) {
      workspace.full = true
      throw new WorkspaceError('ENOSPC')
    }
    used += bytes
  }
  const folder = (depth: number): FolderEntry => {
    return { kind: 'folder', id: ++lastId, entries: new Map(), depth, changedMs: nowMs() }
  }
  const root = folder(0)
  const find = (from: FolderEntry, path: Segments): Entry | undefined => {
    let entry: Entry = from
    for (const name of path) {
      if (entry.kind === 'file') throw new WorkspaceError('ENOTDIR')
      const next = entry.entries.get(name)
      if (next === undefined) return undefined
      entry = next
    }
    return entry
  }
  const folderAt = (from: FolderEntry, path: Segments): FolderEntry => {
    const entry = find(from, path)
    if (entry === undefined) throw new WorkspaceError('ENOENT')
    if (entry.kind === 'file') throw new WorkspaceError('ENOTDIR')
    return entry
  }
  /** The folder of an entry, and its name there. */
  const placeOf = (from: FolderEntry, path: Segments): readonly [FolderEntry, string] => {
    const name = path.at(-1)
    if (name === undefined) throw new WorkspaceError('EINVAL')
    if (Buffer.byteLength(name) > longestName) throw new WorkspaceError('ENAMETOOLONG')
    return [folderAt(from, path.slice(0, -1)), name]
  }
  const put = <E extends Entry>(parent: FolderEntry, name: string, entry: E): E => {
    take(entryBytes)
    parent.entries.set(name, entry)
    parent.changedMs = nowMs()
    return entry
  }
  const resize = (file: FileEntry, size: number): void => {
    take(size - file.size)
    if (size > file.bytes.length) {
      const room = new Uint8Array(Math.min(Math.max(size, file.bytes.length * 2), Math.max(size, diskBytes)))
      room.set(file.bytes.subarray(0, file.size))
      file.bytes = room
    }
    // Truncated bytes must not reappear when the file grows again.
    file.bytes.fill(0, size, file.size)
    file.size = size
    file.changedMs = nowMs()
  }
  const remove = (from: FolderEntry, path: Segments, kind: Entry['kind']): void => {
    const [parent, name] = placeOf(from, path)
    const entry = parent.entries.get(name)
    if (entry === undefined) throw new WorkspaceError('ENOENT')
    if (entry.kind !== kind) throw new WorkspaceError(kind === 'file' ? 'EISDIR' : 'ENOTDIR')
    if (entry.kind === 'folder' && entry.entries.size > 0) throw new WorkspaceError('ENOTEMPTY')
    parent.entries.delete(name)
    parent.changedMs = nowMs()
    used -= entryBytes
    // An open descriptor may still write to the file, but its content is freed.
    if (entry.kind === 'file') resize(entry, 0)
  }
  const workspace: Workspace = {
    root,
    full: false,
    find,
    openFile(from, path, make) {
      const entry = find(from, path)
      if (entry?.kind === 'folder') throw new WorkspaceError('EISDIR')
      if (entry !== undefined && make === 'must') throw new WorkspaceError('EEXIST')
      if (entry !== undefined) return entry
      if (make === 'never') throw new WorkspaceError('ENOENT')
      const [parent, name] = placeOf(from, path)
      const file = { kind: 'file', id: ++lastId, bytes: new Uint8Array(0), size: 0, changedMs: nowMs() } as const
      return put<FileEntry>(parent, name, { ...file })
    },
    makeFolder(from, path) {
      const [parent, name] = placeOf(from, path)
      if (parent.entries.has(name)) throw new WorkspaceError('EEXIST')
      if (parent.depth + 1 >= mostDepth) throw new WorkspaceError('ENAMETOOLONG')
      return put(parent, name, folder(parent.depth + 1))
    },
    write(file, at, bytes) {
      if (at + bytes.length > file.size) resize(file, at + bytes.length)
      file.bytes.set(bytes, at)
      file.changedMs = nowMs()
    },
    resize,
    remove,
    rename(from, path, to, target) {
      const [parent, name] = placeOf(from, path)
      const [newParent, newName] = placeOf(to, target)
      const entry = parent.entries.get(name)
      if (entry === undefined) throw new WorkspaceError('ENOENT')
      if (newParent.entries.get(newName) === entry) return
      if (entry.kind === 'folder') checkMove(entry, newParent)
      if (newParent.entries.has(newName)) remove(to, target, entry.kind)
      parent.entries.delete(name)
      newParent.entries.set(newName, entry)
      if (entry.kind === 'folder') sink(entry, newParent.depth + 1)
    },
  }
  return workspace
}

/** A folder must not be moved into itself, nor, with its content, below the depth limit. */
function checkMove(folder: FolderEntry, target: FolderEntry): void {
  const inside = foldersIn(folder)
  if (inside.includes(target)) throw new WorkspaceError('EINVAL')
  const height = inside.reduce((most, { depth }) => Math.max(most, depth - folder.depth), 0)
  if (target.depth + 1 + height >= mostDepth) throw new WorkspaceError('ENAMETOOLONG')
}

function sink(folder: FolderEntry, depth: number): void {
  const by = depth - folder.depth
  for (const each of foldersIn(folder)) each.depth += by
}

function foldersIn(folder: FolderEntry): FolderEntry[] {
  const inside = [...folder.entries.values()].filter((entry) => entry.kind === 'folder')
  return [folder, ...inside.flatMap(foldersIn)]
}

/** The names of a path with `.` and `..` resolved; undefined when it leaves its base. */
export function segmentsOf(path: string): string[] | undefined {
  const segments: string[] = []
  for (const name of path.split('/')) {
    if (name === '' || name === '.') continue
    if (name !== '..') segments.push(name)
    else if (segments.pop() === undefined) return undefined
  }
  return segments
}

/** The space that files need in a workspace, at most. */
export function spaceOf(files: ReadonlyMap<string, Uint8Array>): number {
  let space = 0
  for (const [path, bytes] of files) space += bytes.length + path.split('/').length * entryBytes
  return space
}

/** Writes the input files into a workspace. */
export function layOut(workspace: Workspace, files: ReadonlyMap<string, Uint8Array>): void {
  for (const [path, bytes] of files) {
    const segments = segmentsOf(path) ?? []
    for (let depth = 1; depth < segments.length; depth++) {
      const folder = segments.slice(0, depth)
      if (workspace.find(workspace.root, folder) === undefined) workspace.makeFolder(workspace.root, folder)
    }
    const file = workspace.openFile(workspace.root, segments, 'may')
    workspace.resize(file, 0)
    workspace.write(file, 0, bytes)
  }
}

export interface Collected {
  readonly files: ReadonlyMap<string, Uint8Array>
  readonly skipped: readonly { readonly path: string; readonly reason: string }[]
}

/** Collects files within the limits, sorted by path. */
export function collect(
  { root }: Workspace,
  most: { readonly files: number; readonly bytes: number } | undefined,
): Collected {
  const files = new Map<string, Uint8Array>()
  const skipped: { path: string; reason: string }[] = []
  let bytesLeft = most?.bytes ?? 0
  const visit = (folder: FolderEntry, prefix: string): void => {
    for (const [name, entry] of [...folder.entries].sort(([one], [other]) => (one < other ? -1 : 1))) {
      const path = prefix + name
      const fault = checkPath(path)
      if (entry.kind === 'folder') visit(entry, `${path}/`)
      else if (fault !== undefined) skipped.push({ path: path.toWellFormed().slice(0, 200), reason: fault })
      else if (files.size >= (most?.files ?? 0)) skipped.push({ path, reason: 'over the number of files' })
      else if (entry.size > bytesLeft) skipped.push({ path, reason: 'over the number of bytes' })
      else {
        files.set(path, entry.bytes.slice(0, entry.size))
        bytesLeft -= entry.size
      }
    }
  }
  if (most !== undefined && most.files > 0) visit(root, '')
  return { files, skipped: skipped.slice(0, mostSkipped) }
}

/** Most skipped files that are listed. */
const mostSkipped = 200
