import type { QemuOptions } from '@gantry/sandbox-microvm'

/** QEMU with the image that `npm run test:engines` built, by emulation. */
export function qemuOptions(): QemuOptions {
  const store = process.env.GANTRY_TEST_MACHINES
  if (store === undefined) throw new Error('There are no machines; run these tests by `npm run test:engines`.')
  return { store, image: 'standard' }
}
