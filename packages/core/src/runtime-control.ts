import { ToolError } from '@gantry/contract'
import {
  isRuntimes,
  type LazyRuntimes,
  lazyRuntimes,
  type RuntimeInfo,
  type Runtimes,
  type RuntimesLoad,
  sharedRuntimes,
} from './runtimes/runtimes.ts'

/** What an executor reports about its runtimes. */
export interface RuntimeControl {
  /** Starts and attacks each runtime, once, and says what works here and what would help where one does not. */
  list(options?: { readonly signal?: AbortSignal | undefined }): Promise<readonly RuntimeInfo[]>
  /** How many programs run, and how many sandboxes wait for one; nothing is started for it. */
  load(): RuntimesLoad
}

/** The runtimes that an executor was given: ready-made ones stay the host's to close. */
export function givenRuntimes(given: Runtimes | LazyRuntimes | undefined): LazyRuntimes {
  if (given === undefined) return lazyRuntimes(noRuntimes)
  return isRuntimes(given) ? sharedRuntimes(given) : given
}

export function runtimeControl(runtimes: LazyRuntimes, life: AbortSignal): RuntimeControl {
  return {
    list: async ({ signal = life } = {}) => (await runtimes.get()).list(signal),
    load: runtimes.load,
  }
}

async function noRuntimes(): Promise<Runtimes> {
  const remedy =
    'Run `npm install @gantry/sandbox` and pass `runtimes: createSandboxes()`, or import createExecutor from gantry.'
  throw new ToolError('RUNTIME_UNAVAILABLE', `This executor has no runtimes, so it cannot run programs. ${remedy}`, {
    retryable: false,
  })
}
