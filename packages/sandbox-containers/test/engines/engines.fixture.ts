import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

/** The socket of the Docker engine that `npm run test:engines` started. */
export function dockerSocket(): string {
  const socket = process.env.GANTRY_TEST_DOCKER
  if (socket === undefined) throw new Error('There is no Docker engine; run these tests by `npm run test:engines`.')
  return socket
}

/** The OCI runtimes of that engine that are not what they say, or say nothing; see `startDocker`. */
export const disguises = {
  oldRunsc: 'runsc-old',
  wrappedRunsc: 'runsc-wrapped',
  runcAsRunsc: 'runsc-is-runc',
  runcClaimingRunsc: 'runsc-claimed',
  oldRunc: 'runc-old',
  unknownRunc: 'runc-unknown',
} as const

/** What the engine started an OCI runtime for, apart from its version: nothing when no container was made. */
export function startsOf(disguise: string): readonly string[] {
  const log = join(dirname(dockerSocket()), `${disguise}.log`)
  if (!existsSync(log)) return []
  return readFileSync(log, 'utf8')
    .split('\n')
    .filter((line) => line !== '' && line !== '--version')
}

/** The runtime of that engine by which runsc forwards no connection to sockets of the host; by `runsc` it does. */
export const sealedRunsc = 'runsc-sealed'

/** The image of that engine that has every language of the suite, as the machine of the tests has them. */
export const fullImage = 'gantry/sandbox:full'

/** containerd that `npm run test:engines` started. */
export function containerd(): { readonly socket: string; readonly namespace: string } {
  const { GANTRY_TEST_CONTAINERD: socket, GANTRY_TEST_CONTAINERD_NAMESPACE: namespace } = process.env
  if (socket === undefined || namespace === undefined) throw new Error('Run this by `npm run test:engines`.')
  return { socket, namespace }
}
