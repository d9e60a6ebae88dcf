import { type Entry, segmentsOf, type Workspace, WorkspaceError } from '../guest/workspace.ts'
import type { FileValue } from './guest.ts'

/** Where the workspace stands for a program. */
const home = '/work'

/** What a program's file functions ask of the workspace, by the name of the call; throws WorkspaceError. */
export function callFile(
  workspace: Workspace,
  call: string,
  path: string,
  ...values: readonly FileValue[]
): Uint8Array | string | undefined {
  const { root } = workspace
  const at = locate(path)
  switch (call) {
    case 'open': {
      const file = workspace.openFile(root, at, 'never')
      return file.bytes.subarray(0, file.size)
    }
    case 'write':
    case 'append': {
      const file = workspace.openFile(root, at, 'may')
      if (call === 'write') workspace.resize(file, 0)
      return workspace.write(file, file.size, bytesOf(values[0])) as undefined
    }
    case 'stat': {
      const entry = present(workspace.find(root, at))
      return JSON.stringify([entry.kind, entry.kind === 'file' ? entry.size : 0, entry.changedMs])
    }
    case 'scandir': {
      const entry = present(workspace.find(root, at))
      if (entry.kind === 'file') throw new WorkspaceError('ENOTDIR')
      return JSON.stringify([...entry.entries.keys()].sort())
    }
    case 'mkdir':
      return makeFolders(workspace, at, values[0] === 1)
    case 'unlink':
      return workspace.remove(root, at, 'file') as undefined
    case 'rm':
      return removeAll(workspace, at, values[0] === 1, values[1] === 1)
    case 'rename':
      return workspace.rename(root, at, root, locate(String(values[0]))) as undefined
    default:
      throw new WorkspaceError('EINVAL')
  }
}

/** Outside the workspace there is nothing. */
function locate(path: string): string[] {
  const absolute = segmentsOf(path.startsWith('/') ? path : `${home}/${path}`)
  if (absolute === undefined || absolute[0] !== home.slice(1)) throw new WorkspaceError('ENOENT')
  return absolute.slice(1)
}

function present(entry: Entry | undefined): Entry {
  if (entry === undefined) throw new WorkspaceError('ENOENT')
  return entry
}

function bytesOf(value: FileValue | undefined): Uint8Array {
  if (value instanceof Uint8Array) return value
  throw new WorkspaceError('EINVAL')
}

function makeFolders(workspace: Workspace, path: readonly string[], recursive: boolean): undefined {
  for (let depth = recursive ? 1 : path.length; depth <= path.length; depth++) {
    const folder = path.slice(0, depth)
    if (recursive && workspace.find(workspace.root, folder)?.kind === 'folder') continue
    workspace.makeFolder(workspace.root, folder)
  }
}

function removeAll(workspace: Workspace, path: readonly string[], recursive: boolean, force: boolean): undefined {
  const entry = workspace.find(workspace.root, path)
  if (entry === undefined && force) return
  const found = present(entry)
  if (found.kind === 'folder') {
    if (!recursive) throw new WorkspaceError('EISDIR')
    for (const name of [...found.entries.keys()]) removeAll(workspace, [...path, name], true, true)
  }
  workspace.remove(workspace.root, path, found.kind)
}
