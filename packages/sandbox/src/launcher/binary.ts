import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { ToolError } from '@gantry/contract'

/** The native launcher for this platform, as shipped with the package. */
export interface LauncherBinary {
  readonly path: string
  /** The verified bytes. Write them to a path that an unprivileged uid can execute. */
  readonly bytes: Buffer
  readonly sha256: string
}

interface Manifest {
  readonly binaries: { readonly [name: string]: string }
}

/** Parent folders to search, from this file or from the bundled command in another package. */
const searchedFolders = 5

/**
 * Finds the launcher and compares it with its manifest, because it runs as root.
 * Rejects with RUNTIME_UNAVAILABLE when this platform has no launcher or its hash differs. The caller
 * caches the result.
 */
export async function launcherBinary(
  from: string = dirname(fileURLToPath(import.meta.url)),
  { platform, arch }: { readonly platform: string; readonly arch: string } = process,
): Promise<LauncherBinary> {
  const name = `gantry-sandbox-${platform}-${arch}`
  const { folder, manifest } = await findManifest(from)
  const sha256 = manifest.binaries[name]
  if (sha256 === undefined) {
    throw unavailable(
      `There is no sandbox launcher for ${platform} on ${arch}.`,
      'Use Linux on x64 or arm64, or another runtime.',
    )
  }
  const path = join(folder, name)
  const bytes = await readFile(path).catch((cause: unknown) => {
    throw unavailable(`The sandbox launcher ${path} cannot be read.`, 'Install the package again.', cause)
  })
  if (createHash('sha256').update(bytes).digest('hex') !== sha256) {
    throw unavailable(`The sandbox launcher ${path} does not match its manifest.`, 'Install the package again.')
  }
  return { path, bytes, sha256 }
}

async function findManifest(from: string): Promise<{ folder: string; manifest: Manifest }> {
  let folder = from
  for (let level = 0; level < searchedFolders; level++) {
    for (const place of ['native/bin', 'sandbox/native/bin']) {
      const found = await readFile(join(folder, place, 'manifest.json'), 'utf8').catch(() => undefined)
      if (found !== undefined) return { folder: join(folder, place), manifest: JSON.parse(found) }
    }
    folder = dirname(folder)
  }
  throw unavailable('The sandbox launcher is not where the package has it.', 'Install the package again.')
}

function unavailable(reason: string, remedy: string, cause?: unknown): ToolError {
  return new ToolError('RUNTIME_UNAVAILABLE', `${reason} ${remedy}`, {
    retryable: false,
    details: { reason, remedy },
    ...(cause === undefined ? {} : { cause }),
  })
}
