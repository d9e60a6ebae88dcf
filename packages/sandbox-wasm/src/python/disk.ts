import { viewOf } from './frames.ts'
import type { FileNode, FileSystem } from './pyodide.ts'

/** The files of a Python host: held to a size, filled, and brought out again. */
export interface Disk {
  /** Sets what all files together may have, besides those that were there before. */
  limit(bytes: number): void
  /** Whether a write was refused for want of room. */
  readonly refused: boolean
  layOut(files: readonly (readonly [path: string, bytes: Uint8Array])[]): void
  /** Calls for each file in the order of their paths, with its bytes where they lie; links and what else is not a file are named with a reason. */
  walk(file: (path: string, bytes: Uint8Array) => void, other: (path: string, reason: string) => void): void
}

const home = '/work'
const noSpace = 51
const mostDepth = 32
const mostEntries = 20_000

export function createDisk(fs: FileSystem): Disk {
  const { MEMFS } = fs.filesystems
  const { stream } = MEMFS.ops_table.file
  const [write, resize] = [stream.write, MEMFS.resizeFileStorage]
  /** What was there before any program. */
  let base: number | undefined
  let [most, used, refused] = [Number.POSITIVE_INFINITY, 0, false]

  /** The count only grows, so before it refuses it is taken anew. */
  const take = (node: FileNode, size: number): void => {
    const more = size - node.usedBytes
    if (more <= 0) return
    if (used + more > most) used = sizeOf(fs, fs.root, new Set())
    if (used + more > most) {
      refused = true
      throw new fs.ErrnoError(noSpace)
    }
    used += more
  }
  stream.write = (open, buffer, offset, length, position, canOwn) => {
    take(open.node, position + length)
    return write(open, buffer, offset, length, position, canOwn)
  }
  MEMFS.resizeFileStorage = (node, size) => {
    take(node, size)
    resize(node, size)
  }
  return {
    limit(bytes) {
      refused = false
      used = sizeOf(fs, fs.root, new Set())
      base ??= used
      most = base + bytes
    },
    get refused() {
      return refused
    },
    layOut(files) {
      fs.mkdirTree(home)
      for (const [path, bytes] of files) {
        fs.mkdirTree(`${home}/${path}`.replace(/\/[^/]*$/, ''))
        // A plain array of its own: what is in there can be reached by the program.
        fs.writeFile(`${home}/${path}`, new Uint8Array(bytes))
      }
      fs.chdir(home)
    },
    walk(file, other) {
      let entries = 0
      const visit = (folder: FileNode, prefix: string, depth: number): void => {
        for (const [name, node] of membersOf(folder)) {
          if (++entries > mostEntries) return
          const path = prefix + name
          if (fs.isFile(node.mode)) file(path, viewOf(node.contents as Uint8Array, 0, node.usedBytes))
          else if (!fs.isDir(node.mode)) other(path, fs.isLink(node.mode) ? 'a symbolic link' : 'a device')
          else if (depth === mostDepth) other(path, 'too deep')
          else visit(node, `${path}/`, depth + 1)
        }
      }
      visit(fs.lookupPath(home, {}).node, '', 1)
    },
  }
}

function membersOf({ contents }: FileNode): [string, FileNode][] {
  if (contents === null || ArrayBuffer.isView(contents)) return []
  return Object.entries(contents).sort(([one], [other]) => (one < other ? -1 : 1))
}

/** Bytes of all files below a folder; what is mounted over a folder lies elsewhere and is small. */
function sizeOf(fs: FileSystem, folder: FileNode, seen: Set<FileNode>): number {
  let bytes = 0
  const pending = [folder]
  for (let node = pending.pop(); node !== undefined; node = pending.pop()) {
    if (seen.has(node)) continue
    seen.add(node)
    if (fs.isFile(node.mode)) bytes += node.usedBytes
    else if (fs.isDir(node.mode)) for (const [, inner] of membersOf(node)) pending.push(inner)
  }
  return bytes
}
