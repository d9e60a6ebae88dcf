import { canonicalJson } from '@gantry/core/internal/json/canonical'
import type { SandboxOptions, SandboxRuntimes } from '@gantry/sandbox'

type Given = SandboxOptions | SandboxRuntimes | undefined

/** Sandboxes that outlive a reload, so that sessions and what was started ahead do. */
export interface SharedSandboxes {
  /** Those for these options: the present ones, when the options say the same as before. */
  of(options: Given): Promise<SandboxRuntimes | SandboxOptions>
  /** How many sessions are open. */
  readonly sessions: number
  /** Ends what is left of them. */
  close(): Promise<void>
}

const lookEveryMs = 60_000

/**
 * Makes sandboxes once for options that are plain data; options with functions are left to each executor. Those that
 * other options replaced stay until no program runs in them any more, because calls keep the configuration that they
 * began with; their sessions end then.
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
    async of(options = {}) {
      if (!isPlain(options)) return options
      const key = canonicalJson(options as never)
      if (present?.key === key) return present.runtimes
      const { openSandboxes } = await import('@gantry/tools')
      const runtimes = await openSandboxes({ ...options, sessions: { ...options.sessions, tag } })
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

function isPlain(options: SandboxOptions | SandboxRuntimes): options is SandboxOptions {
  const parts: readonly unknown[] = Object.values(options)
  return !('use' in options) && parts.every((part) => typeof part !== 'function')
}
