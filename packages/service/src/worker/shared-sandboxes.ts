import { canonicalJson } from '@gantry/core/internal/json/canonical'
import type { SandboxRuntimes } from '@gantry/sandbox'
import type { ExecutorOptions, RuntimeOptions } from '@gantry/tools'

type SandboxSource = RuntimeOptions | SandboxRuntimes | undefined

/** Sandboxes that outlive a reload, with their sessions and warm pools. */
export interface SharedSandboxes {
  /** The sandboxes of these options: the present ones, when the options are equal. `secrets` has the keys of other hosts. */
  of(options: SandboxSource, secrets?: ExecutorOptions['secrets']): Promise<SandboxRuntimes | RuntimeOptions>
  /** The number of open sessions. */
  readonly sessions: number
  /** Closes all sandboxes. */
  close(): Promise<void>
}

const lookEveryMs = 60_000

/**
 * Creates sandboxes once for options that are plain data; options with functions are left to each executor. Replaced
 * sandboxes stay until no program runs in them any more, because calls keep the configuration that they began with;
 * then their sessions end.
 */
export function sharedSandboxes(tag: string): SharedSandboxes {
  const all = new Set<SandboxRuntimes>()
  let present: { readonly key: string; readonly runtimes: SandboxRuntimes } | undefined

  const end = async (runtimes: SandboxRuntimes): Promise<void> => {
    all.delete(runtimes)
    await runtimes.close()
  }
  const retire = (runtimes: SandboxRuntimes): void => {
    const timer = setInterval(() => {
      if (!all.has(runtimes)) clearInterval(timer)
      else if (runtimes.load().running === 0) void end(runtimes).catch(() => undefined)
    }, lookEveryMs)
    timer.unref()
  }
  return {
    async of(options = {}, secrets) {
      if (!isPlain(options)) return options
      const key = canonicalJson(options as never)
      if (present?.key === key) return present.runtimes
      const { openSandboxes } = await import('@gantry/tools')
      const runtimes = await openSandboxes({ ...options, sessions: { ...options.sessions, tag } }, secrets)
      all.add(runtimes)
      if (present !== undefined) retire(present.runtimes)
      present = { key, runtimes }
      return runtimes
    },
    get sessions() {
      return [...all].reduce((count, { sessions }) => count + sessions.size, 0)
    },
    async close() {
      await Promise.all([...all].map(end))
    },
  }
}

function isPlain(options: RuntimeOptions | SandboxRuntimes): options is RuntimeOptions {
  const parts: readonly unknown[] = Object.values(options)
  return !('use' in options) && parts.every((part) => typeof part !== 'function')
}
