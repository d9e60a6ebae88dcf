import { availableParallelism } from 'node:os'
import { ToolError } from '@gantry/contract'
import { follow } from '@gantry/core/internal/resilience/abort'
import type { Refusal, Runtime, Sandbox, SandboxSpec } from '@gantry/core/internal/runtimes/runtime'
import { lazily } from './guest/lazily.ts'
import { refusalOf } from './guest/limits.ts'
import type { SpawnHost } from './python/host-process.ts'

export type { HostProcess, SpawnHost } from './python/host-process.ts'

export interface WasmOptions {
  /** Folder of the Python interpreter snapshot; a private folder under the system's temporary folder when absent. */
  readonly cacheFolder?: string
  /** Starts the process of a Python interpreter; a plain child process when absent. */
  readonly spawnHost?: SpawnHost
  /**
   * Most threads for JavaScript and WASI modules, not counting those of sessions. The default lets one tenant have two per
   * processor and at least 6.
   */
  readonly threads?: number
}

/**
 * More than processors, so that long programs do not delay short ones; and enough that three quarters of them, the share of
 * one tenant, hold programs nested four deep, each of which has a thread while it waits for the next.
 */
const usualThreads = Math.min(22, Math.max(8, Math.ceil((8 * availableParallelism()) / 3)))
/** Measured: a started interpreter, and a script's sandbox before it runs. */
const idleBytes = { python: 160 * 1_048_576, thread: 65_536 }

/**
 * Runs programs in WebAssembly: JavaScript and TypeScript in QuickJS and WASI modules in threads of this process, Python in
 * Pyodide in its own process. Inside there is no shell, no network and no operating system; the interpreters and host timers
 * enforce the limits, not the kernel.
 * - Concurrency: any number of sandboxes; as many scripts and modules run at a time as there are threads.
 * - Ownership: `close` ends every thread and process. Heavy dependencies are loaded on first use.
 */
export function createWasmRuntime(options: WasmOptions = {}): Runtime {
  const open = new Set<Sandbox>()
  const opening = new Set<Promise<unknown>>()
  const closing = new AbortController()
  const shared = lazily(async () => (await import('./thread/shared-pool.ts')).processWide)
  const parts = {
    threads: lazily(async () => {
      const { threads, quickjs } = await shared.get()
      return threads.join(options.threads ?? usualThreads, await quickjs.get())
    }),
    threadSandbox: lazily(() => import('./thread/thread-sandbox.ts')),
    python: lazily(async () => (await import('./python/python.ts')).createPython(options)),
  }

  const openThread = async (spec: SandboxSpec): Promise<Sandbox> => {
    const [threads, { createThreadSandbox }] = await Promise.all([parts.threads.get(), parts.threadSandbox.get()])
    threads.warm()
    return createThreadSandbox(spec, threads)
  }
  const openPython = async (spec: SandboxSpec, signal: AbortSignal): Promise<Sandbox> => {
    return await (await parts.python.get()).open(spec, signal)
  }
  const refuses = (spec: SandboxSpec): Refusal | undefined => {
    return refusalOf(spec) ?? (spec.language === 'python' ? parts.python.loaded?.refusal : undefined)
  }
  const openFor = async (spec: SandboxSpec, signal: AbortSignal): Promise<Sandbox> => {
    const either = follow(signal, closing.signal)
    try {
      const sandbox = spec.language === 'python' ? await openPython(spec, either.signal) : await openThread(spec)
      open.add(sandbox)
      void sandbox.ended.then(() => open.delete(sandbox))
      return sandbox
    } finally {
      either.leave()
    }
  }
  const start = async (spec: SandboxSpec, signal: AbortSignal): Promise<Sandbox> => {
    signal.throwIfAborted()
    closing.signal.throwIfAborted()
    const refusal = refuses(spec)
    if (refusal !== undefined) throw unavailable(refusal)
    const made = openFor(spec, signal)
    opening.add(made)
    try {
      return await made
    } finally {
      opening.delete(made)
    }
  }
  return {
    kind: 'wasm',
    isolation: 'wasm',
    cost: 1,
    programs: ['code', 'wasi'],
    idleBytes: ({ language }) => (language === 'python' ? idleBytes.python : idleBytes.thread),
    async probe(signal) {
      const { probeThreads } = await import('./guest/self-test.ts')
      const { held } = await shared.get()
      return await probeThreads(start, parts.python.loaded?.tested === true, held, signal)
    },
    refuses,
    open: start,
    async close() {
      closing.abort(new ToolError('SANDBOX_INIT_FAILED', 'The wasm runtime is closed.', { retryable: false }))
      await Promise.allSettled(opening)
      await Promise.all([...open].map((sandbox) => sandbox.dispose()))
      await parts.python.loaded?.close()
      await parts.threads.loaded?.close()
    },
  }
}

function unavailable(refusal: Refusal): ToolError {
  const message = `The wasm runtime cannot serve this: ${refusal.reason} ${refusal.remedy}`
  return new ToolError('RUNTIME_UNAVAILABLE', message, { retryable: false, details: { ...refusal } })
}
