/** The module `fs` of the guest, over the workspace in memory; made when a program first asks for it. */
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

/** The source of an ES module that gives what `require` gives. */
export function moduleSource(name: string): string | undefined {
  const plain = name.replace(/^node:/, '')
  if (plain !== 'fs' && plain !== 'fs/promises') return undefined
  const names = plain === 'fs' ? syncNames : syncNames.filter((each) => each !== 'existsSync' && each !== 'writeSync')
  const exported = plain === 'fs' ? [...names, 'promises'] : names.map((each) => each.slice(0, -4))
  return `const all = require('${plain}'); export default all; export const { ${exported.join(', ')} } = all`
}

const syncNames = [
  ...['readFileSync', 'writeFileSync', 'appendFileSync', 'existsSync', 'statSync', 'readdirSync', 'mkdirSync'],
  ...['rmSync', 'unlinkSync', 'renameSync', 'writeSync'],
]
