import { chmodSync, copyFileSync, lstatSync, mkdirSync, readdirSync, readlinkSync, symlinkSync } from 'node:fs'
import { chmod, copyFile, lstat, readdir, readlink, stat, symlink, writeFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { isAbsent } from '@gantry/core/internal/files/private-file'
import { makeFolder, unreachable } from './root-file-system-reach.ts'

/** Who a program finds itself to be; nothing in it is of the host. */
const written: { readonly [name: string]: string } = {
  passwd:
    'root:x:0:0:root:/:/bin/sh\nsandbox:x:1000:1000:sandbox:/work:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n',
  group: 'root:x:0:\nsandbox:x:1000:\nnogroup:x:65534:\n',
  hosts: '127.0.0.1 localhost sandbox\n::1 localhost\n',
  // No name servers are asked: none can be reached, and a program should hear so at once.
  'nsswitch.conf': 'passwd: files\ngroup: files\nhosts: files\nservices: files\nprotocols: files\n',
}

/** What interpreters, the dynamic loader and TLS libraries read; none of it tells who or where the host is. */
const copied = [
  'ld.so.cache',
  'localtime',
  'mime.types',
  'os-release',
  'protocols',
  'services',
  'ssl/cert.pem',
  'ssl/openssl.cnf',
  'pki/tls/cert.pem',
  'pki/tls/openssl.cnf',
]
/** Certificates are many and change, so that they are bound; only a sandbox with a network reads them. */
const certificates = [
  'ca-certificates/extracted',
  'crypto-policies/back-ends',
  'pki/ca-trust/extracted',
  'pki/java',
  'pki/tls/certs',
  'ssl/certs',
]
const mostBytes = 4_194_304
const openMode = 0o755

/** Folders of the host's /etc that are bound into ours. */
export interface EtcBinds {
  /** Hundreds of links, which take longer to copy than a mount does for many starts. */
  readonly always: readonly string[]
  /** For sandboxes with a network. */
  readonly certificates: readonly string[]
}

/** Writes a small /etc into `folder`, and resolves to bubblewrap's arguments for what is bound into it. */
export async function prepareEtc(folder: string): Promise<EtcBinds> {
  await makeFolder(folder, openMode)
  for (const [name, text] of Object.entries(written)) await writeOpen(join(folder, name), text)
  for (const name of copied) await copy(name, folder)
  const java = (await readdir('/etc')).filter((name) => /^java(-\d+[a-z0-9-]*)?$/.test(name))
  for (const name of java) {
    const from = join('/etc', name)
    if (await isOpenFolder(from)) copyTree(from, join(folder, name))
  }
  return { always: await bind(['alternatives'], folder), certificates: await bind(certificates, folder) }
}

async function bind(names: readonly string[], folder: string): Promise<string[]> {
  const args: string[] = []
  for (const name of names) {
    const path = join('/etc', name)
    if (!(await isOpenFolder(path))) continue
    await makeFolder(join(folder, name), openMode)
    args.push('--ro-bind', path, path)
  }
  return args
}

/** A small folder with the links in it as they are; what others may not read stays out. */
function copyTree(from: string, to: string): void {
  mkdirSync(to)
  chmodSync(to, openMode)
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    const [source, copy] = [join(from, entry.name), join(to, entry.name)]
    if (entry.isSymbolicLink()) symlinkSync(readlinkSync(source), copy)
    else if ((lstatSync(source).mode & 0o004) === 0) continue
    else if (entry.isDirectory()) copyTree(source, copy)
    else if (entry.isFile() && lstatSync(source).size <= mostBytes) {
      copyFileSync(source, copy)
      chmodSync(copy, 0o444)
    }
  }
}

/** Links are copied as they are, and only into /usr, which is the same inside. */
async function copy(name: string, folder: string): Promise<void> {
  const [from, to] = [join('/etc', name), join(folder, name)]
  const stats = await lstat(from).catch(absent)
  if (stats === undefined) return
  if (stats.isSymbolicLink()) {
    const target = await readlink(from)
    if (!resolve(dirname(from), target).startsWith('/usr/')) return
    await makeFolder(dirname(to), openMode)
    await symlink(target, to)
  } else if (stats.isFile() && stats.size <= mostBytes && (await unreachable(from, 'read')) === undefined) {
    await makeFolder(dirname(to), openMode)
    await copyFile(from, to)
    await chmod(to, 0o444)
  }
}

async function isOpenFolder(path: string): Promise<boolean> {
  const stats = await stat(path).catch(absent)
  return stats?.isDirectory() === true && (await unreachable(path, 'read')) === undefined
}

async function writeOpen(path: string, text: string): Promise<void> {
  await writeFile(path, text, { flag: 'wx' })
  await chmod(path, 0o444)
}

function absent(error: unknown): undefined {
  if (isAbsent(error)) return undefined
  throw error
}
