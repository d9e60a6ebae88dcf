import type { SandboxLimit, SandboxLimits } from '@gantry/contract'
import type { EndReason, LaunchEnd } from '@gantry/sandbox/internal/launcher/launcher'
import type { Figures, SupervisorLink } from '@gantry/sandbox/internal/launcher/supervisor'
import type { Container } from '../engines/engine.ts'
import { type CgroupFigures, type CgroupSources, readCpuNs, readFigures } from './cgroup-figures.ts'

/** How often the figures of a run are compared with its limits. */
const lookMs = 50

/**
 * ## Container supervisor
 *
 * What the native supervisor is to a `process` sandbox, for a container: the wall clock, the watch over figures, the end.
 *
 * | state    | entered when                                 | left by                                                  |
 * | -------- | -------------------------------------------- | -------------------------------------------------------- |
 * | started  | the container was started                    | `begin`, which sets the processor time back to 0         |
 * | running  | `begin` starts the wall clock of a run       | `measure` (to started), a limit, `kill`, the engine lost |
 * | dead     | `end` resolves: no process of it lives       | removal by the engine                                    |
 * | gone     | `ended` resolves: the engine has removed it  | –                                                        |
 *
 * Nothing here throws or rejects.
 */
export function superviseContainer(
  container: Container,
  sources: CgroupSources | undefined,
  limits: SandboxLimits,
): SupervisorLink {
  const end = Promise.withResolvers<LaunchEnd>()
  const ended = Promise.withResolvers<LaunchEnd>()
  let wall: NodeJS.Timeout | undefined
  let watch: NodeJS.Timeout | undefined
  let cause: { readonly reason: EndReason; readonly limit?: SandboxLimit; readonly message?: string } | undefined
  /** What was read last: after the end the kernel has none any more. */
  let last: CgroupFigures = { figures: {}, hits: [] }
  let hasRun = false
  /** Processor time of earlier runs of a session. What the first run finds used is its own: an interpreter started ahead. */
  let baseNs = 0

  const look = (): Figures => {
    if (sources !== undefined) {
      const now = readFigures(sources, limits, baseNs)
      if (Object.keys(now.figures).length > 0) last = now
    }
    const hits =
      container.isOutOfMemory() && !last.hits.includes('memoryBytes')
        ? [...last.hits, 'memoryBytes' as const]
        : last.hits
    return { figures: last.figures, hits }
  }
  const stop = (): void => {
    clearTimeout(wall)
    clearInterval(watch)
  }
  const finish = (reason: EndReason, limit?: SandboxLimit): void => {
    if (cause !== undefined) return
    cause = { reason, ...(limit === undefined ? {} : { limit }) }
    look()
    stop()
    void remove()
  }
  const remove = async (): Promise<void> => {
    const left = await container.remove()
    settle(left)
  }
  const settle = (left: readonly string[]): void => {
    const { reason, limit, message } = cause ?? { reason: 'exited' as const }
    const said = message ?? container.stderr()
    const done: LaunchEnd = {
      reason,
      ...(limit === undefined ? {} : { limit }),
      ...(said === '' ? {} : { message: said }),
      ...look(),
      left,
    }
    end.resolve(done)
    ended.resolve(done)
  }
  // The streams end with the processes; when the engine tells of it, the control group may be removed already.
  for (const event of ['end', 'close']) container.channel.once(event, look)
  void container.died.then(async (how) => {
    stop()
    // Some engines keep the control group until the container is removed.
    look()
    const isFirst = cause === undefined
    cause ??= how.kind === 'lost' ? { reason: 'killed', message: how.reason } : { reason: 'exited' }
    // A limit that ended it before the engine was lost is the reason, and removal is under way.
    if (how.kind === 'lost' && isFirst) end.resolve({ reason: 'killed', message: how.reason, ...look(), left: [] })
    settle(await container.remove())
  })
  return {
    begin(wallMs) {
      stop()
      if (hasRun && sources !== undefined) baseNs = readCpuNs(sources) ?? baseNs
      hasRun = true
      wall = setTimeout(() => finish('wall'), wallMs)
      if (sources === undefined) return
      watch = setInterval(() => {
        const [limit] = look().hits
        if (limit !== undefined) finish('watch', limit)
      }, lookMs)
    },
    async measure() {
      stop()
      return look()
    },
    look: async () => look(),
    kill: () => finish('killed'),
    end: end.promise,
    ended: ended.promise,
  }
}
