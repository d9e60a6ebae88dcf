import { createHash, randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, readFile, rename, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { unavailable } from '@gantry/sandbox-containers/internal/engines/docker-client'
import type { Flavour } from '@gantry/sandbox-containers/internal/images/flavours'
import { labelsOfSystem } from '@gantry/sandbox-containers/internal/images/image-contents'
import { buildRootFileSystem, type RootFileSystem } from '@gantry/sandbox-containers/internal/images/root-file-system'
import { runProgram } from '@gantry/sandbox-containers/internal/images/run-program'
import { type ImageDescription, imageFiles, imagesFolder, packagesFolder } from './image-store.ts'
import { initramfs } from './initramfs.ts'
import { fetchKernel, type Kernel } from './kernel.ts'

/** Counted up when the steps below change, so that the same packages give another digest. */
const recipe = '2'

export interface MachineBuildOptions {
  readonly flavour: Flavour
  /** Where images are kept; see `storeFolder`. */
  readonly store: string
  /** A root file system of the flavour that is there already, and stays the caller's; built and removed when absent. */
  readonly system?: RootFileSystem
  readonly signal: AbortSignal
  readonly onProgress?: (step: string) => void
}

/**
 * Builds the image of a flavour: a kernel, an archive with the guest's first process, and a disk with the root file system
 * of containers. The same packages give the same digest, and an image that is there already is not made again. Rejects with
 * RUNTIME_UNAVAILABLE when something cannot be had.
 */
export async function buildMachineImage(options: MachineBuildOptions): Promise<ImageDescription> {
  const { flavour, store, signal, onProgress } = options
  if (process.arch !== 'x64') {
    throw unavailable(`There is no guest for ${process.arch}.`, 'Use a machine with an x64 processor.')
  }
  const work = await mkdtemp(join(tmpdir(), 'gantry-machine-'))
  const progress = onProgress === undefined ? {} : { onProgress }
  let own: RootFileSystem | undefined
  try {
    onProgress?.('fetching the kernel')
    const kernel = await fetchKernel(join(work, 'kernel'), packagesFolder(), signal)
    if (options.system === undefined) own = await buildRootFileSystem({ flavour, signal, ...progress })
    const system = options.system ?? own
    if (system === undefined) throw new Error('A root file system is built or given.')
    const digest = createHash('sha256').update([recipe, system.digest, kernel.digest].join('\n')).digest('hex')
    const folder = join(imagesFolder(store), digest)
    if (!existsSync(folder)) {
      onProgress?.('making the disk')
      await storeImage({ store, folder, digest, kernel, system, flavour, signal })
    }
    await nameNewest(store, flavour.name, digest)
    return await readDescription(folder)
  } finally {
    await own?.remove()
    await rm(work, { recursive: true, force: true, maxRetries: 5 })
  }
}

interface Stored {
  readonly store: string
  readonly folder: string
  readonly digest: string
  readonly kernel: Kernel
  readonly system: RootFileSystem
  readonly flavour: Flavour
  readonly signal: AbortSignal
}

/** Fills a folder beside the image's and renames it, so that no reader finds half of one. */
async function storeImage({ store, folder, digest, kernel, system, flavour, signal }: Stored): Promise<void> {
  await mkdir(imagesFolder(store), { recursive: true, mode: 0o755 })
  const draft = await mkdtemp(join(imagesFolder(store), 'draft-'))
  try {
    await writeFile(join(draft, imageFiles.kernel), kernel.program)
    await writeFile(join(draft, imageFiles.initramfs), await guestArchive(system.folder, kernel))
    await makeDisk(system.folder, join(draft, imageFiles.disk), digest, signal)
    const labels = labelsOfSystem(system)
    const bytes = await bytesOf(draft)
    const description: ImageDescription = {
      digest: `sha256:${digest}`,
      flavour: flavour.name,
      kernel: kernel.version,
      createdAt: new Date().toISOString(),
      bytes,
      labels,
    }
    await writeFile(join(draft, imageFiles.description), `${JSON.stringify(description, undefined, 2)}\n`)
    await runProgram('chmod', ['-R', 'u=rwX,go=rX', draft], { signal })
    await rename(draft, folder).catch(async (error: unknown) => {
      // Another build was faster.
      if (!existsSync(folder)) throw error
    })
  } finally {
    await rm(draft, { recursive: true, force: true })
  }
}

/** The first process and the modules that it loads. */
async function guestArchive(system: string, { modules }: Kernel): Promise<Buffer> {
  const list = modules.map(({ name }) => `${name}.ko\n`).join('')
  return initramfs([
    { path: 'init', bytes: await readFile(join(system, 'gantry/init')), mode: 0o755 },
    { path: 'modules/list', bytes: Buffer.from(list), mode: 0o644 },
    ...modules.map(({ name, bytes }) => ({ path: `modules/${name}.ko`, bytes, mode: 0o644 })),
  ])
}

const mebibyte = 2 ** 20

/** A file system without a journal, because it is never written; its numbers come from the digest. */
async function makeDisk(system: string, path: string, digest: string, signal: AbortSignal): Promise<void> {
  const used = Number((await runProgram('du', ['-sk', system], { signal })).split('\t')[0]) * 1_024
  const size = Math.ceil((used * 1.15) / mebibyte) + 16
  const uuid = digest.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12}).*$/, '$1-$2-$3-$4-$5')
  const features = '^has_journal,^metadata_csum,^resize_inode'
  const owner = process.getuid?.() === 0 ? ',root_owner=0:0' : ''
  const extended = `hash_seed=${uuid}${owner},lazy_itable_init=0`
  const common = ['-q', '-F', '-t', 'ext4', '-b', '4096', '-m', '0', '-O', features, '-U', uuid, '-E', extended]
  await runProgram(mke2fs(), [...common, '-d', system, path, `${size}M`], { signal })
}

/** Of the folders of root's programs, which a user's PATH may lack. */
function mke2fs(): string {
  const found = ['/usr/sbin/mke2fs', '/sbin/mke2fs', '/usr/local/sbin/mke2fs'].find((path) => existsSync(path))
  if (found === undefined) throw unavailable('There is no mke2fs to make the disk with.', 'Install e2fsprogs.')
  return found
}

async function bytesOf(folder: string): Promise<number> {
  const sizes = await Promise.all((await readdir(folder)).map(async (name) => (await stat(join(folder, name))).size))
  return sizes.reduce((sum, size) => sum + size, 0)
}

/** The name of a flavour leads to its newest image; replaced at once, so that it always leads to one. */
async function nameNewest(store: string, flavour: string, digest: string): Promise<void> {
  const draft = join(imagesFolder(store), `link-${randomBytes(6).toString('hex')}`)
  await symlink(digest, draft)
  await rename(draft, join(imagesFolder(store), flavour))
}

async function readDescription(folder: string): Promise<ImageDescription> {
  return JSON.parse(await readFile(join(folder, imageFiles.description), 'utf8')) as ImageDescription
}
