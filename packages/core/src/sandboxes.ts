import { ToolError } from '@gantry/contract'
import type { RuntimesSource } from '@gantry/sandbox/internal/backends/sandboxed'
import type { RuntimeInfo, RuntimesLoad } from '@gantry/sandbox/internal/runtimes'
import {
  checkSandboxOptions,
  type SandboxOptions,
  type SandboxRuntimes,
} from '@gantry/sandbox/internal/sandbox-options'

/** What an executor tells of its sandboxes. */
export interface RuntimeControl {
  /** Starts and attacks each runtime, once, and says what works here and what would help where one does not. */
  list(options?: { readonly signal?: AbortSignal | undefined }): Promise<readonly RuntimeInfo[]>
  /** How many programs run, and how many sandboxes wait for one; nothing is started for it. */
  load(): RuntimesLoad
}

/** The sandboxes of an executor, loaded and made with the first program that needs one. */
export interface Sandboxes {
  readonly source: RuntimesSource
  readonly control: RuntimeControl
  close(): Promise<void>
}

export function lazySandboxes(options: SandboxOptions | SandboxRuntimes | undefined, life: AbortSignal): Sandboxes {
  if (options !== undefined && !isRuntimes(options)) checkSandboxOptions(options)
  let made: Promise<SandboxRuntimes> | undefined
  let known = isRuntimes(options) ? options : undefined
  let closed = false
  const source: RuntimesSource = () => {
    if (closed) return Promise.reject(new ToolError('BACKEND_UNAVAILABLE', 'The executor is closed.'))
    made ??= isRuntimes(options) ? Promise.resolve(options) : make(options)
    if (known === undefined) made.then(know, () => undefined)
    return made
  }
  const know = (runtimes: SandboxRuntimes): void => {
    known = runtimes
  }
  return {
    source,
    control: {
      async list({ signal = life } = {}) {
        const [runtimes, { runtimesWithoutDriver }] = await Promise.all([
          source(),
          import('@gantry/sandbox/internal/missing-drivers'),
        ])
        const present = await runtimes.list(signal)
        return [...present, ...runtimesWithoutDriver(present)]
      },
      load: () => known?.load() ?? idle,
    },
    async close() {
      closed = true
      if (made !== undefined && !isRuntimes(options)) await (await made).close()
    },
  }
}

const idle: RuntimesLoad = Object.freeze({ running: 0, waiting: 0 })

/** Runtimes that the host made are shared, and stay the host's to close. */
function isRuntimes(options: SandboxOptions | SandboxRuntimes | undefined): options is SandboxRuntimes {
  return options !== undefined && 'list' in options && typeof options.list === 'function'
}

async function make(options: SandboxOptions = {}): Promise<SandboxRuntimes> {
  // By its public name, because the command's bundle leaves it out: it finds its programs beside its own files.
  const { createSandboxes } = await import('@gantry/sandbox')
  return createSandboxes(options)
}
