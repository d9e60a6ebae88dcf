import { ToolError } from '@gantry/contract'
import {
  type ExecutorOptions as CoreOptions,
  createExecutor as createCoreExecutor,
  type Executor,
  type LazyRuntimes,
  lazyRuntimes,
} from '@gantry/core'
import { isRuntimes, sharedRuntimes } from '@gantry/core/internal/runtimes/runtimes'
import { type Knowledge, knowledgeBackend } from '@gantry/knowledge'
import type { SandboxOptions, SandboxRuntimes } from '@gantry/sandbox'
import { sandboxedBackend } from '@gantry/sandbox/internal/backends/sandboxed'
import { sessionBackend } from '@gantry/sandbox/internal/backends/session'
import { checkSandboxOptions } from '@gantry/sandbox/internal/runtimes/options'
import { filesBackend } from './backends/files.ts'
import { webBackend } from './backends/web.ts'

/** What an executor of the full set can be given: the options of core, with runtimes by their options, and knowledge. */
export interface ExecutorOptions extends Omit<CoreOptions, 'runtimes'> {
  /** Where programs run: profiles, limits, what is started ahead; ready-made runtimes stay the host's to close. */
  readonly runtimes?: SandboxOptions | SandboxRuntimes
  /** Where `kb:*` keeps texts; in memory when absent, with the embedder of this executor. */
  readonly knowledge?: Knowledge
}

/** An executor with the backends of all built-in tools and the runtimes `wasm`, `process` and `unsafe_host`. */
export function createExecutor(options: ExecutorOptions = {}): Executor {
  // Core refuses what is no object of options.
  if (!isObject(options)) return createCoreExecutor(options)
  const { runtimes: sandboxes, knowledge, ...rest } = options
  const runtimes = runtimesOf(sandboxes)
  const backends = [
    filesBackend(),
    sandboxedBackend(runtimes.get),
    sessionBackend(runtimes.get),
    webBackend(),
    knowledgeBackend(knowledgeOf(options)),
  ]
  const given = Array.isArray(rest.backends) ? rest.backends : []
  // Anything else is left for core to refuse.
  const all = rest.backends === undefined || Array.isArray(rest.backends) ? [...backends, ...given] : rest.backends
  return createCoreExecutor({ ...rest, runtimes, backends: all })
}

function runtimesOf(given: SandboxOptions | SandboxRuntimes | undefined): LazyRuntimes<SandboxRuntimes> {
  if (given !== undefined && !isObject(given)) {
    throw invalid('/runtimes', 'must be an object of options for sandboxes, or what createSandboxes returns')
  }
  if (given !== undefined && isRuntimes(given)) return sharedRuntimes(given as SandboxRuntimes)
  if (given !== undefined) checkSandboxOptions(given)
  return lazyRuntimes(() => openSandboxes(given))
}

/** Makes the sandboxes of the full set; loads their packages, which bring files along, when it is called. */
export async function openSandboxes(options: SandboxOptions = {}): Promise<SandboxRuntimes> {
  const [{ createSandboxes }, { createWasmRuntime }] = await Promise.all([
    import('@gantry/sandbox'),
    import('@gantry/sandbox-wasm'),
  ])
  const { use = [] } = options
  const wasm = use.some(({ kind }) => kind === 'wasm') ? [] : [createWasmRuntime()]
  return createSandboxes({ ...options, use: [...wasm, ...use] })
}

/** The host's own knowledge, or one in memory that is made when it is first asked. */
function knowledgeOf({ knowledge, embedder }: ExecutorOptions): () => Knowledge | Promise<Knowledge> {
  if (knowledge !== undefined && !isKnowledge(knowledge)) {
    throw invalid('/knowledge', 'must be knowledge with add, search, get and remove')
  }
  let made: Promise<Knowledge> | undefined
  return () => {
    if (knowledge !== undefined) return knowledge
    made ??= import('@gantry/knowledge/internal/memory').then(({ memoryKnowledge }) => memoryKnowledge({ embedder }))
    return made
  }
}

function isKnowledge(value: object): boolean {
  return 'add' in value && typeof value.add === 'function' && 'search' in value && typeof value.search === 'function'
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function invalid(path: string, message: string): ToolError {
  const text = `createExecutor was given wrong options: ${path} ${message}`
  return new ToolError('CONFIG_INVALID', text, { details: { issues: [{ path, message }] } })
}
