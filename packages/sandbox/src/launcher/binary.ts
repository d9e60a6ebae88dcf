import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { ToolError } from '@gantry/contract'

/** The native launcher for this machine, as it came with the package. */
export interface LauncherBinary {
  readonly path: string
  /** The checked bytes: write these where a uid that cannot read the package has to execute them. */
  readonly bytes: Buffer
  readonly sha256: string
}

interface Manifest {
  readonly binaries: { readonly [name: string]: string }
}

/** From this file, or from the bundled command in a package beside core. */
const searchedFolders = 5

/**
 * Finds the launcher and compares it with its manifest: what runs as root must be what was built.
 * Rejects with RUNTIME_UNAVAILABLE when there is none for this machine or it is not the one that was shipped. The caller
 * keeps the answer.
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
    throw unavailable(`The sandbox launcher ${path} is not the one that was shipped.`, 'Install the package again.')
  }
  return { path, bytes, sha256 }
}

async function findManifest(from: string): Promise<{ folder: string; manifest: Manifest }> {
  let folder = from
  for (let level = 0; level < searchedFolders; level++) {
    for (const place of ['native/bin', 'sandbox/native/bin']) {
      const found = await readFile(join(folder, place, 'manifest.json'), 'utf8').catch(() => undefined)
      if (found !== undefined) return { folder: join(folder, place), manifest: JSON.parse(found) as Manifest }
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
