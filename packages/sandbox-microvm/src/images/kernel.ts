import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { unavailable } from '@gantry/sandbox-containers/internal/engines/docker-client'
import { runProgram } from '@gantry/sandbox-containers/internal/images/run-program'
import { plainKernel } from './plain-kernel.ts'

/** The kernel of the guest and its modules. */
export interface Kernel {
  readonly version: string
  /** An ELF file. */
  readonly program: Buffer
  /** In the order in which they are loaded. */
  readonly modules: readonly { readonly name: string; readonly bytes: Buffer }[]
  /** Of the package. */
  readonly digest: string
}

const metaPackage = 'linux-image-cloud-amd64'
/** What the guest needs: its disk, its channel in either form, and the file system of its image. */
const wanted = ['virtio_mmio', 'virtio_blk', 'virtio_console', 'crc32c_generic', 'ext4', 'vmw_vsock_virtio_transport']

/**
 * Fetches Debian's kernel for virtual machines and unpacks it into `work`; nothing is installed. Rejects with
 * RUNTIME_UNAVAILABLE where apt does not have it.
 */
export async function fetchKernel(work: string, cache: string, signal: AbortSignal): Promise<Kernel> {
  const listed = await runProgram('apt-cache', ['depends', '--important', metaPackage], { signal })
  const name = /Depends: (linux-image-\S+)/.exec(listed)?.[1]
  if (name === undefined) throw unavailable(`apt knows no package ${metaPackage}.`, 'Run `apt-get update` as root.')
  const uri = await runProgram('apt-get', ['--print-uris', '-qq', 'download', name], { signal })
  const file = /^'[^']*' (\S+\.deb) \d+/m.exec(uri)?.[1]
  if (file === undefined) throw unavailable(`apt cannot fetch ${name}.`, 'Run `apt-get update` as root.')
  await mkdir(cache, { recursive: true })
  const path = join(cache, file)
  if (!existsSync(path)) {
    await runProgram('apt-get', ['-qq', '-o', 'APT::Sandbox::User=root', 'download', name], { signal, cwd: cache })
  }
  await mkdir(work, { recursive: true })
  await runProgram('dpkg-deb', ['-x', path, work], { signal })
  const version = name.replace('linux-image-', '')
  const compressed = await readFile(join(work, 'boot', `vmlinuz-${version}`))
  const folder = await modulesFolder(work, version)
  return {
    version,
    program: await plainKernel(compressed, work, signal),
    modules: await modulesIn(folder, signal),
    digest: createHash('sha256')
      .update(await readFile(path))
      .digest('hex'),
  }
}

async function modulesFolder(work: string, version: string): Promise<string> {
  const folder = ['lib/modules', 'usr/lib/modules'].map((at) => join(work, at, version)).find((at) => existsSync(at))
  if (folder === undefined) throw unavailable(`The package of the kernel ${version} has no modules.`, 'Use Debian.')
  return join(folder, 'kernel')
}

/** Each behind those that it depends on, as its own file says; a module that the kernel has built in has no file. */
async function modulesIn(folder: string, signal: AbortSignal): Promise<Kernel['modules']> {
  const paths = (await readdir(folder, { recursive: true })).filter((path) => /\.ko(\.xz)?$/.test(path))
  const byName = new Map(paths.map((path) => [nameOf(path), join(folder, path)]))
  const loaded = new Map<string, Buffer>()
  const load = async (name: string): Promise<void> => {
    const path = byName.get(name)
    if (path === undefined || loaded.has(name)) return
    const bytes = await moduleBytes(path, signal)
    for (const other of dependsOf(bytes)) await load(other)
    loaded.set(name, bytes)
  }
  for (const name of wanted) await load(name)
  return [...loaded].map(([name, bytes]) => ({ name, bytes }))
}

/** `virtio_blk` and `virtio-blk` are the same. */
function nameOf(path: string): string {
  return basename(path)
    .replace(/\.ko(\.xz)?$/, '')
    .replaceAll('-', '_')
}

async function moduleBytes(path: string, signal: AbortSignal): Promise<Buffer> {
  if (!path.endsWith('.xz')) return readFile(path)
  await runProgram('xz', ['-dk', path], { signal })
  return readFile(path.slice(0, -'.xz'.length))
}

function dependsOf(bytes: Buffer): readonly string[] {
  const at = bytes.indexOf('\0depends=')
  if (at < 0) return []
  const from = at + '\0depends='.length
  const text = bytes.subarray(from, bytes.indexOf(0, from)).toString('latin1')
  return text.split(',').filter(Boolean).map(nameOf)
}
