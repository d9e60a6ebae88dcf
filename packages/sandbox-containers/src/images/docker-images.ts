import { follow } from '@gantry/core/internal/resilience/abort'
import {
  createDockerClient,
  type DockerAddress,
  type DockerClient,
  DockerError,
  engineRefusal,
} from '../engines/docker-client.ts'
import type { Flavour } from './flavours.ts'
import { type ImageArchive, imageArchive } from './image-archive.ts'
import { labelsOfSystem } from './image-contents.ts'
import { imageRepository } from './image-name.ts'
import { buildRootFileSystem, type RootFileSystem } from './root-file-system.ts'

export interface BuiltImage {
  /** By its content: `gantry/sandbox:standard-<digest>`. */
  readonly name: string
  readonly digest: string
}

export interface LoadOptions {
  readonly address: DockerAddress
  readonly flavour: Flavour
  /** A root file system of the flavour that is there already, and stays the caller's; built and removed when absent. */
  readonly system?: RootFileSystem
  readonly signal: AbortSignal
  readonly onProgress?: (step: string) => void
}

/** A large image on a busy machine. */
const loadMs = 600_000

/**
 * Builds the image of a flavour and loads it into Docker, under its content's name and as the newest of its flavour. The
 * same packages give the same name, and an image that is there already is not made again. Rejects with RUNTIME_UNAVAILABLE
 * when the engine cannot be used or the packages cannot be had.
 */
export async function buildDockerImage(options: LoadOptions): Promise<BuiltImage> {
  const { address, flavour, signal, onProgress } = options
  const client = createDockerClient(address)
  try {
    await client.call('GET', '/version', { signal })
    const system =
      options.system ??
      (await buildRootFileSystem({ flavour, signal, ...(onProgress === undefined ? {} : { onProgress }) }))
    try {
      const tag = `${flavour.name}-${system.digest.slice(0, 12)}`
      const name = `${imageRepository}:${tag}`
      const known = await client
        .call('GET', `/images/${encodeURIComponent(name)}/json`, { signal })
        .catch((error: unknown) => {
          if (error instanceof DockerError && error.status === 404) return undefined
          throw error
        })
      if (known === undefined) {
        onProgress?.('loading the image into Docker')
        const labels = labelsOfSystem(system)
        await loadArchive(client, await imageArchive({ folder: system.folder, names: [name], labels, signal }), signal)
      }
      await client.call(
        'POST',
        `/images/${encodeURIComponent(name)}/tag?repo=${encodeURIComponent(imageRepository)}&tag=${flavour.name}`,
        { signal },
      )
      const { Id } = (await client.call('GET', `/images/${encodeURIComponent(name)}/json`, { signal })) as {
        readonly Id: string
      }
      return { name, digest: Id }
    } finally {
      if (options.system === undefined) await system.remove()
    }
  } catch (error) {
    throw engineRefusal(error, address, signal)
  } finally {
    client.close()
  }
}

/** Loads an archive into the engine; its image then has the archive's digest as its Id, as in every other engine. */
export async function loadArchive(client: DockerClient, archive: ImageArchive, given: AbortSignal): Promise<void> {
  const { signal, abort, leave } = follow(given)
  const stream = archive.open(signal)
  // A body that breaks off must end the request, for which the engine would wait.
  stream.on('error', abort)
  try {
    await client.call('POST', '/images/load?quiet=1', { signal, stream, waitMs: loadMs, onLine: throwOnError })
  } finally {
    leave()
    stream.destroy()
  }
}

function throwOnError(line: unknown): void {
  const { error } = line as { readonly error?: unknown }
  if (typeof error === 'string') throw new DockerError(0, error.slice(0, 500))
}
