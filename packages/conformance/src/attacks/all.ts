import type { Attack } from './attack.ts'
import { deviceAndSocketAttacks } from './devices-sockets.ts'
import { environmentAttacks } from './environment.ts'
import { filesystemAttacks } from './filesystem.ts'
import { procAttacks } from './proc.ts'
import { processAttacks } from './processes.ts'
import { resourceAttacks } from './resources.ts'
import { syscallAttacks } from './syscalls.ts'

const unguarded = 'It guards against nothing: it is what the attacks are seen to succeed in.'

/** Every attack of the list on sandboxes, 1–64 and 75–76, in its order. */
export const allAttacks: readonly Attack[] = [
  ...[filesystemAttacks, procAttacks, processAttacks, syscallAttacks],
  ...[deviceAndSocketAttacks, resourceAttacks, environmentAttacks],
]
  .flat()
  .map((attack) => ({ ...attack, explained: { ...attack.explained, unsafe_host: unguarded } }))
