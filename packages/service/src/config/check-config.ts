import type { BackendBinding, Issue, Tool } from '@gantry/contract'
import {
  type Backend,
  type CatalogEntry,
  type DefinedTool,
  type Executor,
  openSecretStore,
  type SecretStoreOptions,
} from '@gantry/core'
import { nearest } from '@gantry/core/internal/search/near'
import { knowledgeBackend } from '@gantry/knowledge'
import { sandboxedBackend } from '@gantry/sandbox/internal/backends/sandboxed'
import type { PackageState } from '@gantry/sandbox/internal/packages/open-layers'
import { builtinTools, createExecutor, demoTools, type ToolsFolder, webBackend } from '@gantry/tools'
import type { ConfigRequest, LoadedConfig } from './config.ts'
import { loadConfig } from './load.ts'
import { packagesOf, packageWarnings, sandboxIssues } from './package-problems.ts'
import { configError, isToolError, reading, throwingValue } from './problem.ts'

/** Summary of a valid configuration. */
export interface ConfigSummary {
  readonly file: string | null
  /** Tools of the configuration and of its HTTP backends; those of other backends are discovered at runtime. */
  readonly tools: number
  readonly demo: boolean
  /** Backends of the configuration, as `kind:name`. */
  readonly backends: readonly string[]
  readonly policy: boolean
  /** Limits that differ from the defaults. */
  readonly limits: { readonly [name: string]: unknown }
  readonly secrets: 'none' | 'yes'
  /** Loaded and refused tools of the folder of tools, when there is one. */
  readonly toolsFolder?: Omit<ToolsFolder, 'tools'>
  /** The packages of sandboxes that are configured. */
  readonly packages?: readonly PackageState[]
  readonly warnings: readonly string[]
}

/**
 * Loads the configuration and checks, without running or connecting anything, every tool, the backends that it names,
 * and that the secret store opens. Throws CONFIG_INVALID with all problems.
 */
export async function checkConfig(request: ConfigRequest): Promise<ConfigSummary> {
  const loaded = await loadConfig(request)
  const { issues, summary } = await checkLoaded(loaded, request.signal)
  refuse(loaded.file, issues)
  return summary
}

/** The problems that `checkConfig` finds in a loaded configuration; those of keys that were left out are unknown. */
export async function checkLoaded(
  loaded: LoadedConfig,
  signal: AbortSignal,
  omitted: ReadonlySet<string> = new Set(),
): Promise<{ readonly issues: readonly Issue[]; readonly summary: ConfigSummary }> {
  const { file } = loaded
  const { tools = [], ...options } = loaded.options
  const { backends = [] } = options
  const builtIn = [...(loaded.builtins ? builtinTools(loaded.builtinOptions) : []), ...(loaded.demo ? demoTools() : [])]
  const gantry = reading(file, () => createExecutor({ ...options, tools: builtIn }))
  try {
    const found = tools.flatMap((tool, index) => toolIssues(file, `/tools/${index}`, tool, gantry, backends))
    const ofSandboxes = await sandboxIssues(loaded.options)
    const issues = [...found, ...(await otherIssues(loaded, gantry, signal)), ...ofSandboxes]
    const unknown = omitted.has('/backends') ? /^\/tools\/\d+\/backends/ : /$^/
    const packages = await packagesOf(loaded.options, true)
    const summary = summaryOf(loaded, gantry.catalog.size)
    const warnings = [...summary.warnings, ...packageWarnings(packages)]
    return {
      issues: issues.filter(({ path }) => !unknown.test(path)),
      summary: packages.length === 0 ? summary : { ...summary, packages, warnings },
    }
  } finally {
    await gantry.close()
  }
}

/** Throws what `checkConfig` throws, for an executor that exists already. */
export async function refuseUnfit(loaded: LoadedConfig, executor: Executor, signal: AbortSignal): Promise<void> {
  const { tools = [], backends = [] } = loaded.options
  const issues = tools.flatMap(({ tool, run }, index) =>
    placed(`/tools/${index}`, bindingIssues(tool, run !== undefined, backends)),
  )
  refuse(loaded.file, [...issues, ...(await otherIssues(loaded, executor, signal))])
}

function refuse(file: string | undefined, issues: readonly Issue[]): void {
  if (issues.length > 0) throw configError(file, 'The configuration is invalid.', issues)
}

/** Problems other than those of the tools of the configuration itself. */
async function otherIssues(loaded: LoadedConfig, executor: Executor, signal: AbortSignal): Promise<Issue[]> {
  return [
    ...(await discoveredIssues(executor, loaded.options.backends ?? [], signal)),
    ...(await storeIssues(loaded.secretStore)),
  ]
}

function placed(at: string, issues: readonly Issue[]): Issue[] {
  return issues.map((issue) => ({ ...issue, path: `${at}${issue.path}` }))
}

function toolIssues(
  file: string | undefined,
  at: string,
  defined: DefinedTool,
  gantry: Executor,
  backends: readonly Backend[],
): Issue[] {
  try {
    const { tool } = gantry.register(defined)
    return placed(at, bindingIssues(tool, defined.run !== undefined, backends))
  } catch (error) {
    if (!isToolError(error)) throw file === undefined ? error : throwingValue(file, at, error)
    return placesOf(at, error)
  }
}

/** Opens the secret store. Which secrets the tools need is known only when they run. */
async function storeIssues(store: SecretStoreOptions | undefined): Promise<Issue[]> {
  if (store === undefined) return []
  try {
    await (await openSecretStore(store)).list()
    return []
  } catch (error) {
    return placesOf('/secretStore', error)
  }
}

function summaryOf({ file, demo, options, toolsFolder, warnings }: LoadedConfig, tools: number): ConfigSummary {
  return {
    file: file ?? null,
    tools,
    demo,
    backends: (options.backends ?? []).map(({ kind, name }) => `${kind}:${name}`),
    policy: options.policy !== undefined,
    limits: { ...options.limits },
    secrets: options.secrets === undefined ? 'none' : 'yes',
    ...(toolsFolder === undefined ? {} : { toolsFolder: reportOf(toolsFolder) }),
    warnings,
  }
}

/** The folder of tools without the tools themselves. */
export function reportOf({ path, digest, loaded, refused }: ToolsFolder): Omit<ToolsFolder, 'tools'> {
  return { path, digest, loaded, refused }
}

const nothing = (): Promise<never> => Promise.reject(new Error('checkConfig runs no tool'))
/** Backends that every executor has; here they only check bindings. */
const everywhere: readonly Backend[] = [sandboxedBackend(nothing), webBackend(), knowledgeBackend(nothing)]

/** Problems of a tool's backend bindings that can be found before a call. */
function bindingIssues(tool: Tool, isLocal: boolean, backends: readonly Backend[]): Issue[] {
  return tool.backends.flatMap((binding, index): Issue[] => {
    const path = `/backends/${index}`
    if (binding.kind === 'local') return isLocal ? [] : [{ path, message: 'is local, but the tool has no function' }]
    const backend = everywhere.find(({ kind }) => kind === binding.kind) ?? backendOf(binding, backends)
    if (backend === undefined) return [{ path, message: noBackend(binding, backends) }]
    try {
      backend.check?.(binding, tool)
      return []
    } catch (error) {
      return placesOf(path, error)
    }
  })
}

/** Problems of tools of HTTP backends, which are known without connecting. */
async function discoveredIssues(gantry: Executor, backends: readonly Backend[], signal: AbortSignal): Promise<Issue[]> {
  const issues: Issue[] = []
  for (const [index, backend] of backends.entries()) {
    if (backend.kind !== 'http' || backend.discover === undefined) continue
    const path = `/backends/${index}/tools`
    const stop = gantry.on('backend:reported', ({ message }) => issues.push({ path, message }))
    await backend.discover(signal)
    stop()
    for (const { key, tool } of entriesOf(gantry, backend.name)) {
      const found = bindingIssues(tool, false, backends)
      issues.push(...found.map((issue) => ({ path, message: `holds ${key}, whose ${issue.path} ${issue.message}` })))
    }
  }
  return issues
}

/** The issues of a ToolError, with paths below `at`; rethrows anything else. */
function placesOf(at: string, error: unknown): Issue[] {
  if (!isToolError(error)) throw error
  const found = error.details?.issues ?? []
  if (found.length === 0) return [{ path: at, message: error.message }]
  return found.map(({ path, message }) => ({ path: `${at}${path}`, message }))
}

function entriesOf({ catalog }: Executor, namespace: string): CatalogEntry[] {
  const entries: CatalogEntry[] = []
  let cursor: string | undefined
  do {
    const page = catalog.list({ namespace, allVersions: true, ...(cursor === undefined ? {} : { cursor }) })
    entries.push(...page.items)
    cursor = page.cursor
  } while (cursor !== undefined)
  return entries
}

/** Finds a backend as a call does: by kind and name, or the only one of its kind. */
function backendOf({ kind, name }: BackendBinding, backends: readonly Backend[]): Backend | undefined {
  const alike = backends.filter((backend) => backend.kind === kind)
  const exact = alike.find((backend) => backend.name === (name ?? kind))
  return exact ?? (name === undefined && alike.length === 1 ? alike[0] : undefined)
}

function noBackend({ kind, name }: BackendBinding, backends: readonly Backend[]): string {
  const keys = backends.map((backend) => `${backend.kind}:${backend.name}`)
  const wanted = name === undefined ? kind : `${kind}:${name}`
  const [near] = nearest(wanted, keys, { limit: 1 })
  const hint = near === undefined ? '' : `; did you mean ${near}?`
  const alike = name === undefined && keys.some((key) => key.startsWith(`${kind}:`))
  return alike ? `must name one of ${keys.join(', ')}` : `names the unknown backend ${wanted}${hint}`
}
