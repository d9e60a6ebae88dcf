import type { ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import {
  type ExecutorOptions as CoreOptions,
  createExecutor as createCoreExecutor,
  type Executor,
  type LazyRuntimes,
  lazyRuntimes,
  type Runtime,
  type WorkEngine,
} from '@gantry/core'
import { refusal } from '@gantry/core/internal/options/options'
import { isRuntimes, sharedRuntimes } from '@gantry/core/internal/runtimes/runtimes'
import { type Knowledge, knowledgeBackend } from '@gantry/knowledge'
import type { SandboxOptions, SandboxRuntimes } from '@gantry/sandbox'
import { sandboxedBackend } from '@gantry/sandbox/internal/backends/sandboxed'
import { sessionBackend } from '@gantry/sandbox/internal/backends/session'
import { sandboxOptionsCheck } from '@gantry/sandbox/internal/runtimes/options'
import type { ContainerOptions } from '@gantry/sandbox-containers'
import { containerChecks } from '@gantry/sandbox-containers/internal/options'
import type { KubernetesRuntimesOptions } from '@gantry/sandbox-kubernetes'
import { kubernetesChecks } from '@gantry/sandbox-kubernetes/internal/settings'
import type { MicrovmRuntimesOptions } from '@gantry/sandbox-microvm'
import { microvmChecks } from '@gantry/sandbox-microvm/internal/settings'
import type { ProxmoxRuntimesOptions } from '@gantry/sandbox-proxmox'
import { proxmoxChecks } from '@gantry/sandbox-proxmox/internal/settings'
import type { RemoteRuntimesOptions } from '@gantry/sandbox-remote'
import { remoteChecks } from '@gantry/sandbox-remote/internal/settings'
// The declarations of the Temporal SDK, which the package's own names refer to, need the types of more packages.
import {
  type TemporalRuntimesOptions,
  type TemporalSettings,
  temporalCheck,
  temporalChecks,
} from '@gantry/temporal/internal/settings-check'
import { filesBackend } from './files.ts'
import { webBackend } from './http-fetch.ts'

/** Options of sandboxes, and the runtimes in containers, in a cluster, in virtual machines and on other hosts that are configured. */
export interface RuntimeOptions
  extends SandboxOptions,
    ContainerOptions,
    KubernetesRuntimesOptions,
    MicrovmRuntimesOptions,
    ProxmoxRuntimesOptions,
    RemoteRuntimesOptions,
    TemporalRuntimesOptions {}

/** Options of an executor of the full set: those of core, options of runtimes, and knowledge. */
export interface ExecutorOptions extends Omit<CoreOptions, 'runtimes' | 'engines'> {
  /** Engines for chains and programs that name one by the option `engine`: settings of Temporal, or engines that are open. */
  readonly engines?: { readonly temporal?: TemporalSettings | WorkEngine }
  /** Options of runtimes: profiles, limits, containers, warm pools. The host closes runtimes that it passes in. */
  readonly runtimes?: RuntimeOptions | SandboxRuntimes
  /** The store of `kb:*`; in memory when absent, with the embedder of this executor. */
  readonly knowledge?: Knowledge
}

/** An executor with the backends of all built-in tools and the runtimes `wasm`, `process` and `unsafe_host`, and those that are configured. */
export function createExecutor(options: ExecutorOptions = {}): Executor {
  // Core refuses options that are not an object.
  const value: unknown = options
  if (!isObject(value)) return createCoreExecutor(options as CoreOptions)
  const { runtimes: sandboxes, knowledge, engines, ...rest } = options
  const runtimes = runtimesOf(sandboxes, rest.secrets)
  const backends = [
    filesBackend(),
    sandboxedBackend(runtimes.get),
    sessionBackend(runtimes.get),
    webBackend(),
    knowledgeBackend(knowledgeOf(options)),
  ]
  const given = Array.isArray(rest.backends) ? rest.backends : []
  // Core refuses any other value.
  const all = rest.backends === undefined || Array.isArray(rest.backends) ? [...backends, ...given] : rest.backends
  return createCoreExecutor({ ...rest, runtimes, backends: all, ...enginesOf(engines, rest.secrets) })
}

/** The check of each engine's settings. */
export const engineChecks = { temporal: temporalCheck }

/** The checks of the options of runtimes that are configured, by kind. */
export const runtimeDriverChecks = {
  ...containerChecks,
  ...kubernetesChecks,
  ...microvmChecks,
  ...proxmoxChecks,
  ...remoteChecks,
  ...temporalChecks,
}

const checkRuntimeOptions: (options: RuntimeOptions) => void = sandboxOptionsCheck(runtimeDriverChecks)

function runtimesOf(
  given: RuntimeOptions | SandboxRuntimes | undefined,
  secrets: ExecutorOptions['secrets'],
): LazyRuntimes<SandboxRuntimes> {
  const value: unknown = given
  if (value !== undefined && !isObject(value)) {
    throw invalid('/runtimes', 'must be an object of options for sandboxes, or what createSandboxes returns')
  }
  if (given !== undefined && isRuntimes(given)) return sharedRuntimes(given as SandboxRuntimes)
  if (given !== undefined) checkRuntimeOptions(given)
  return lazyRuntimes(() => openSandboxes(given, secrets))
}

/**
 * Creates the sandboxes of the full set; loads their packages on the first call, because they include large files.
 * `secrets` has the keys of other hosts.
 */
export async function openSandboxes(
  options: RuntimeOptions = {},
  secrets?: ExecutorOptions['secrets'],
): Promise<SandboxRuntimes> {
  checkRuntimeOptions(options)
  const { docker, containerd, firecracker, gvisor, kata, kubernetes, proxmox, qemu, remote, temporal, ...rest } =
    options
  const { use = [], root, processors, languages } = rest
  const [{ createLanguages, createSandboxes }, { createWasmRuntime }] = await Promise.all([
    import('@gantry/sandbox'),
    import('@gantry/sandbox-wasm'),
  ])
  const containers = async (): Promise<readonly Runtime[]> => {
    if ([docker, containerd, gvisor, kata].every((one) => one === undefined)) return []
    const { createContainerRuntimes } = await import('@gantry/sandbox-containers')
    const configured = {
      ...(docker === undefined ? {} : { docker }),
      ...(containerd === undefined ? {} : { containerd }),
      ...(gvisor === undefined ? {} : { gvisor }),
      ...(kata === undefined ? {} : { kata }),
    }
    return createContainerRuntimes(configured, {
      languages: createLanguages(languages),
      ...(root === undefined ? {} : { root }),
      ...(processors === undefined ? {} : { processors }),
    })
  }
  const clusters = async (): Promise<readonly Runtime[]> => {
    if (kubernetes === undefined) return []
    const { createKubernetesRuntime } = await import('@gantry/sandbox-kubernetes')
    return [
      createKubernetesRuntime({
        ...(processors === undefined ? {} : { processors }),
        ...kubernetes,
        languages: createLanguages(languages),
      }),
    ]
  }
  const machines = async (): Promise<readonly Runtime[]> => {
    if (qemu === undefined && firecracker === undefined) return []
    const { createFirecrackerRuntime, createQemuRuntime } = await import('@gantry/sandbox-microvm')
    const shared = {
      ...(root === undefined ? {} : { root }),
      ...(processors === undefined ? {} : { processors }),
      languages: createLanguages(languages),
    }
    return [
      ...(firecracker === undefined ? [] : [createFirecrackerRuntime({ ...shared, ...firecracker })]),
      ...(qemu === undefined ? [] : [createQemuRuntime({ ...shared, ...qemu })]),
    ]
  }
  const nodes = async (): Promise<readonly Runtime[]> => {
    if (proxmox === undefined) return []
    const { openProxmoxRuntime } = await import('@gantry/sandbox-proxmox')
    const settings = { ...(processors === undefined ? {} : { processors }), ...proxmox }
    return [await openProxmoxRuntime(settings, secrets, createLanguages(languages))]
  }
  const hosts = async (): Promise<readonly Runtime[]> => {
    if (remote === undefined) return []
    const { openRemoteRuntime } = await import('@gantry/sandbox-remote')
    return [await openRemoteRuntime(remote, secrets)]
  }
  const workers = async (): Promise<readonly Runtime[]> => {
    if (temporal === undefined) return []
    const { openTemporalRuntime } = await import('@gantry/temporal')
    return [openTemporalRuntime(temporal, secrets)]
  }
  const given = new Set(use.map(({ kind }) => kind))
  const configured = [
    await containers(),
    await clusters(),
    await machines(),
    await nodes(),
    await hosts(),
    await workers(),
  ].flat()
  const own = [createWasmRuntime(), ...configured].filter(({ kind }) => !given.has(kind))
  return createSandboxes({ ...rest, use: [...own, ...use] })
}

/** Engines of settings are opened by their first work, because their packages are large. */
function enginesOf(
  given: ExecutorOptions['engines'],
  secrets: ExecutorOptions['secrets'],
): Pick<CoreOptions, 'engines'> {
  if (given === undefined) return {}
  const value: unknown = given
  if (!isObject(value)) throw invalid('/engines', 'must be an object of engines')
  const { temporal, ...others } = given
  const [other] = Object.keys(others)
  if (other !== undefined) throw invalid(`/engines/${other}`, 'is not an engine; there is temporal')
  if (temporal === undefined) return {}
  if ('chain' in temporal) return { engines: { temporal } }
  const issues = temporalCheck.issues(temporal, '/engines/temporal')
  if (issues.length > 0) throw refusal('options of createExecutor', issues)
  return { engines: { temporal: lazyEngine(temporal, secrets) } }
}

function lazyEngine(settings: TemporalSettings, secrets: ExecutorOptions['secrets']): WorkEngine {
  let opened: Promise<WorkEngine> | undefined
  const open = (): Promise<WorkEngine> => {
    opened ??= import('@gantry/temporal').then(({ openTemporalEngine }) => openTemporalEngine(settings, secrets))
    return opened
  }
  return {
    chain: async (work) => (await open()).chain(work),
    code: async (work) => (await open()).code(work),
    close: async () => (await opened)?.close(),
  }
}

/** The host's knowledge, or one in memory that is created on first use. */
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

function invalid(path: string, message: string): ToolError {
  return refusal('options of createExecutor', [{ path, message }])
}
