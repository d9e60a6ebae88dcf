import { setTimeout as pause } from 'node:timers/promises'
import type { Container, ContainerEnd } from '@gantry/sandbox-containers/internal/engines/engine'
import type { ExecStream } from '../cluster/exec-stream.ts'

/** How long a killed pod may take to be gone, which the kubelet of its node confirms. */
const killedMs = 5_000

/** A pod by the stream of its bridge. `removePod` resolves with what is left of it. */
export function podContainer(
  { channel, stderr, ended }: ExecStream,
  removePod: () => Promise<readonly string[]>,
): Container {
  let removing: Promise<readonly string[]> | undefined
  const died = ended.then((end): ContainerEnd => {
    if (end.kind === 'lost') return end
    return { kind: 'exited', code: end.code }
  })
  return {
    channel,
    pid: undefined,
    stderr,
    isOutOfMemory: () => false,
    died,
    async kill() {
      // The end of its stdin ends the init, and the init everything in the pod; the exec ends with it.
      channel.end()
      const late = pause(killedMs, undefined, { ref: false })
      return (await Promise.race([ended, late]))?.kind === 'exited'
    },
    remove() {
      channel.destroy()
      removing ??= removePod()
      return removing
    },
  }
}
