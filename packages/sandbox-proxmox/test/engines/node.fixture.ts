import type { ProxmoxOptions } from '@gantry/sandbox-proxmox'

/** How to reach the server with the API of Proxmox VE that `npm run test:engines` started. */
export function nodeOptions(): ProxmoxOptions {
  const text = process.env.GANTRY_TEST_PROXMOX
  if (text === undefined) throw new Error('There is no server of Proxmox; run these tests by `npm run test:engines`.')
  return JSON.parse(text)
}
