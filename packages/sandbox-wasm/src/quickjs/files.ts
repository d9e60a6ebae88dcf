import { type Entry, segmentsOf, type Workspace, WorkspaceError } from '../guest/workspace.ts'
import type { FileValue } from './guest.ts'

/** The path of the workspace for a program. */
const home = '/work'

/** Runs a file operation of the guest on the workspace, by name; throws WorkspaceError. */
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
      workspace.write(file, file.size, bytesOf(values[0]))
      return undefined
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
      workspace.remove(root, at, 'file')
      return undefined
    case 'rm':
      return removeAll(workspace, at, values[0] === 1, values[1] === 1)
    case 'rename':
      workspace.rename(root, at, root, locate(String(values[0])))
      return undefined
    default:
      throw new WorkspaceError('EINVAL')
  }
}

/** Nothing exists outside the workspace. */
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

/** The guest's `fs` module over the in-memory workspace; created on first use. */
export const filesModule = `(given) => {
  'use strict'
  const { host, write, bytesOf, TextDecoder } = given
  const reasons = {
    EEXIST: 'file already exists', EINVAL: 'invalid argument', EISDIR: 'illegal operation on a directory',
    ENAMETOOLONG: 'name too long', ENOENT: 'no such file or directory', ENOSPC: 'no space left on device',
    ENOTDIR: 'not a directory', ENOTEMPTY: 'directory not empty', EACCES: 'permission denied',
  }
  const ask = (syscall, path, ...values) => {
    try {
      return host.file(syscall, String(path), ...values)
    } catch (error) {
      const code = error.message
      if (!Object.hasOwn(reasons, code)) throw error
      throw Object.assign(new Error(code + ': ' + reasons[code] + ', ' + syscall + " '" + path + "'"), { code, syscall, path })
    }
  }
  const asked = (options, encoding) => (encoding === undefined ? (typeof options === 'string' ? options : options?.encoding) : encoding)
  const statsOf = (path) => {
    const [kind, size, mtimeMs] = JSON.parse(ask('stat', path))
    return { size, mtimeMs, mtime: new Date(mtimeMs), isFile: () => kind === 'file', isDirectory: () => kind === 'folder', isSymbolicLink: () => false }
  }
  const fs = {
    readFileSync(path, options) {
      const bytes = path === 0 || path === '/dev/stdin' ? host.stdin() : ask('open', path)
      const encoding = asked(options)
      if (encoding == null) return new Uint8Array(bytes)
      if (!/^utf-?8$/i.test(encoding)) throw new TypeError("only the encoding utf8 is known, not '" + encoding + "'")
      return new TextDecoder().decode(bytes)
    },
    writeFileSync: (path, data) => void ask('write', path, bytesOf(data)),
    appendFileSync: (path, data) => void ask('append', path, bytesOf(data)),
    existsSync(path) {
      try {
        ask('stat', path)
        return true
      } catch {
        return false
      }
    },
    statSync: (path) => statsOf(path),
    readdirSync: (path) => JSON.parse(ask('scandir', path)),
    mkdirSync: (path, options) => void ask('mkdir', path, Number(Boolean(options?.recursive))),
    rmSync: (path, options) => void ask('rm', path, Number(Boolean(options?.recursive)), Number(Boolean(options?.force))),
    unlinkSync: (path) => void ask('unlink', path),
    renameSync: (from, to) => void ask('rename', from, String(to)),
    writeSync(fd, data) {
      const text = typeof data === 'string' ? data : new TextDecoder().decode(bytesOf(data))
      write(Number(fd), text)
      return text.length
    },
  }
  fs.promises = Object.fromEntries(
    Object.keys(fs).filter((name) => name !== 'existsSync' && name !== 'writeSync').map((name) => {
      return [name.slice(0, -4), async (...values) => fs[name](...values)]
    }),
  )
  return fs
}`

/** Source of an ES module that exports what `require` returns. */
export function moduleSource(name: string): string | undefined {
  const plain = name.replace(/^node:/, '')
  if (plain !== 'fs' && plain !== 'fs/promises') return undefined
  const names = plain === 'fs' ? syncNames : syncNames.filter((each) => each !== 'existsSync' && each !== 'writeSync')
  const exported = plain === 'fs' ? [...names, 'promises'] : names.map((each) => each.slice(0, -4))
  return `const all = require('${plain}'); export default all; export const { ${exported.join(', ')} } = all`
}

const syncNames = [
  'readFileSync',
  'writeFileSync',
  'appendFileSync',
  'existsSync',
  'statSync',
  'readdirSync',
  'mkdirSync',
  'rmSync',
  'unlinkSync',
  'renameSync',
  'writeSync',
]
