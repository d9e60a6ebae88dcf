import { readdir, readFile, realpath, rm } from 'node:fs/promises'
import { homedir } from 'node:os'
import { basename, join } from 'node:path'
import { isAbsent } from '@gantry/core/internal/files/private-file'
import { unavailable } from '@gantry/sandbox-containers/internal/engines/docker-client'
import type { ContainerImage } from '@gantry/sandbox-containers/internal/engines/engine'
import type { SandboxImage } from '@gantry/sandbox-containers/internal/images/image-inventory'
import { imageRepository } from '@gantry/sandbox-containers/internal/images/image-name'

/** The files of an image, in the folder that has its digest as a name. */
export const imageFiles = {
  kernel: 'vmlinux',
  initramfs: 'initrd',
  disk: 'system.ext4',
  description: 'image.json',
} as const

/** What an image says of itself. */
export interface ImageDescription extends ContainerImage {
  readonly flavour: string
  /** The release of its kernel. */
  readonly kernel: string
  readonly createdAt: string
  readonly bytes: number
}

/** An image that machines start from. */
export interface MachineImage extends ImageDescription {
  readonly folder: string
}

/**
 * Where images and snapshots are: virtual machines run under uids of their own, which must be able to read them, so it is no
 * folder of a user's home where this process is root.
 */
export function storeFolder(): string {
  if (process.getuid?.() === 0) return '/var/cache/gantry/microvm'
  return join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'gantry', 'microvm')
}

export function imagesFolder(store: string): string {
  return join(store, 'images')
}

/** Where packages of Debian are kept between builds; the folder of the root file systems. */
export function packagesFolder(): string {
  return join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'gantry', 'debian')
}

/** Finds an image by the name of its flavour, with or without the repository's, or by its digest. */
export async function findImage(store: string, name: string, kind = 'qemu'): Promise<MachineImage> {
  const short = name.replace(`${imageRepository}:`, '').replace(/^sha256:/, '')
  const remedy = `Run \`gantry runtime build standard --engine qemu\`, and name the image in \`runtimes.${kind}.image\`.`
  if (!/^[a-z0-9][a-z0-9-]{0,127}$/.test(short)) {
    throw unavailable(`${JSON.stringify(name)} is no name of an image of virtual machines.`, remedy)
  }
  try {
    const folder = await realpath(join(imagesFolder(store), short))
    return { ...(await readImage(folder)), folder }
  } catch (error) {
    if (!isAbsent(error)) throw error
    throw unavailable(`There is no image ${JSON.stringify(name)} in ${imagesFolder(store)}.`, remedy)
  }
}

async function readImage(folder: string): Promise<ImageDescription> {
  return JSON.parse(await readFile(join(folder, imageFiles.description), 'utf8')) as ImageDescription
}

/** Lists the images, newest first. */
export async function listImages(store: string): Promise<readonly SandboxImage[]> {
  const folder = imagesFolder(store)
  const names = await namesIn(folder)
  const images: SandboxImage[] = []
  const newest = new Map<string, string>()
  for (const name of names.filter((one) => !isDigest(one))) {
    const path = await realpath(join(folder, name)).catch(() => undefined)
    if (path !== undefined && isDigest(basename(path))) newest.set(basename(path), name)
  }
  for (const name of names.filter(isDigest)) {
    const { digest, createdAt, bytes, flavour: made } = await readImage(join(folder, name))
    const flavour = newest.get(name)
    const byContent = `${imageRepository}:${made}-${name.slice(0, 12)}`
    images.push({
      digest,
      names: flavour === undefined ? [byContent] : [`${imageRepository}:${flavour}`, byContent],
      ...(flavour === undefined ? {} : { flavour }),
      bytes,
      createdAt,
    })
  }
  return images.toSorted((one, other) => other.createdAt.localeCompare(one.createdAt, 'en'))
}

/** Removes the images that a newer one of their flavour has replaced; answers with them. */
export async function pruneImages(store: string): Promise<readonly SandboxImage[]> {
  const replaced = (await listImages(store)).filter(({ flavour }) => flavour === undefined)
  for (const { digest } of replaced) {
    await rm(join(imagesFolder(store), digest.replace('sha256:', '')), { recursive: true, force: true })
  }
  return replaced
}

function isDigest(name: string): boolean {
  return /^[0-9a-f]{64}$/.test(name)
}

async function namesIn(folder: string): Promise<readonly string[]> {
  return readdir(folder).catch((error: unknown) => {
    if (isAbsent(error)) return []
    throw error
  })
}
