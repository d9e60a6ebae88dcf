import { cp, mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { apiError } from '../api/api-error.ts'

/** Parent folders to search, from this file or from the bundled command in another package. */
const searchedFolders = 5

/**
 * Makes a root file system, as `gantry runtime build` has it, the template of containers: process 1, the agent, and the
 * key of the agent, which each container reads and removes at its start.
 */
export async function addGuestFiles(folder: string, key: string): Promise<void> {
  const guest = await guestFolder()
  const init = join(folder, 'usr/sbin/init')
  await rm(init, { force: true })
  await writeFile(init, await readFile(join(guest, 'init.sh')), { mode: 0o755 })
  await cp(join(guest, 'agent.mjs'), join(folder, 'gantry/agent.mjs'))
  await rm(join(folder, 'gantry/agent-key'), { force: true })
  await writeFile(join(folder, 'gantry/agent-key'), `${key}\n`, { mode: 0o600, flag: 'wx' })
  // Proxmox writes the address of the container there.
  await mkdir(join(folder, 'etc/network'), { recursive: true })
}

async function guestFolder(): Promise<string> {
  let folder = dirname(fileURLToPath(import.meta.url))
  for (let level = 0; level < searchedFolders; level += 1) {
    for (const place of ['guest', 'sandbox-proxmox/guest']) {
      const found = join(folder, place)
      if (await readFile(join(found, 'agent.mjs')).then(Boolean, () => false)) return found
    }
    folder = dirname(folder)
  }
  throw apiError('other', 'The files of containers are not where the package has them.', {
    remedy: 'Install @gantry/sandbox-proxmox again.',
  })
}
