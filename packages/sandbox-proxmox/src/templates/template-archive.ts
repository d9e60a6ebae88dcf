import { rename, rm, writeFile } from 'node:fs/promises'
import { type Flavour, flavours } from '@gantry/sandbox-containers/internal/images/flavours'
import { buildRootFileSystem } from '@gantry/sandbox-containers/internal/images/root-file-system'
import { runProgram } from '@gantry/sandbox-containers/internal/images/run-program'
import { addGuestFiles } from './guest-files.ts'

/** The flavours that a template can have: its agent needs Node. */
export const templateFlavours: readonly Flavour[] = flavours.filter(({ node }) => node)

export interface TemplateOptions {
  readonly flavour: Flavour
  /** The key that containers are entered with. */
  readonly key: string
  /** The archive to write, `.tar.gz`; an older one is replaced. */
  readonly file: string
  readonly signal: AbortSignal
  readonly onProgress?: (step: string) => void
}

/** Writes the archive that Proxmox makes a template from. Only its owner may read it, because the key is in it. */
export async function writeTemplateArchive(options: TemplateOptions): Promise<void> {
  const { flavour, key, file, signal, onProgress } = options
  const system = await buildRootFileSystem({ flavour, signal, ...(onProgress === undefined ? {} : { onProgress }) })
  const draft = `${file}.new`
  try {
    await addGuestFiles(system.folder, key)
    onProgress?.('writing the archive')
    const owner = ['--numeric-owner', '--owner=0', '--group=0']
    await rm(draft, { force: true })
    await writeFile(draft, '', { mode: 0o600, flag: 'wx' })
    await runProgram('tar', ['-c', '-z', ...owner, '-C', system.folder, '-f', draft, '.'], { signal })
    await rename(draft, file)
  } finally {
    await rm(draft, { force: true })
    await system.remove()
  }
}
