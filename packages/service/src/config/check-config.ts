import type { Issue } from '@gantry/contract'
import { type Backend, type DefinedTool, type Executor, openSecretStore, type SecretStoreOptions } from '@gantry/core'
import { builtinTools, createExecutor, demoTools, type ToolsFolder } from '@gantry/tools'
import { bindingIssues, broughtIssues, placesOf } from './check-tools.ts'
import type { ConfigRequest, LoadedConfig } from './config.ts'
import { loadConfig } from './load.ts'
import { configError, isToolError, reading, throwingValue } from './problem.ts'

/** What a configuration amounts to. */
export interface ConfigSummary {
  readonly file: string | null
  /** Those of the configuration and those that its HTTP backends bring; others are known only when they are asked. */
  readonly tools: number
  readonly demo: boolean
  /** Those of the configuration, as a tool's binding names them. */
  readonly backends: readonly string[]
  readonly policy: boolean
  /** Only what differs from the defaults. */
  readonly limits: { readonly [name: string]: unknown }
  readonly secrets: 'none' | 'yes'
  /** What became of the folder of tools, when there is one. */
  readonly toolsFolder?: Omit<ToolsFolder, 'tools'>
  readonly warnings: readonly string[]
}

/**
 * Loads the configuration and tries what can be tried without running or connecting anything: every tool, the backends
 * that it names, and whether the store of secrets opens. Throws CONFIG_INVALID with all that is wrong.
 */
export async function checkConfig(request: ConfigRequest): Promise<ConfigSummary> {
  const loaded = await loadConfig(request)
  const { file } = loaded
  const { tools = [], ...options } = loaded.options
  const { backends = [] } = options
  const builtIn = [...(loaded.builtins ? builtinTools(loaded.builtinOptions) : []), ...(loaded.demo ? demoTools() : [])]
  const gantry = reading(file, () => createExecutor({ ...options, tools: builtIn }))
  try {
    const issues = tools.flatMap((tool, index) => toolIssues(file, `/tools/${index}`, tool, gantry, backends))
    refuse(file, [...issues, ...(await otherIssues(loaded, gantry, request.signal))])
    return summaryOf(loaded, gantry.catalog.size)
  } finally {
    await gantry.close()
  }
}

/** Refuses, in the words of `checkConfig`, what it would; for whoever has made an executor of the configuration. */
export async function refuseUnfit(loaded: LoadedConfig, executor: Executor, signal: AbortSignal): Promise<void> {
  const { tools = [], backends = [] } = loaded.options
  const issues = tools.flatMap(({ tool, run }, index) =>
    placed(`/tools/${index}`, bindingIssues(tool, run !== undefined, backends)),
  )
  refuse(loaded.file, [...issues, ...(await otherIssues(loaded, executor, signal))])
}

function refuse(file: string | undefined, issues: readonly Issue[]): void {
  if (issues.length > 0) throw configError(file, 'The configuration cannot work as it is.', issues)
}

/** What is wrong besides the tools that the configuration names itself. */
async function otherIssues(loaded: LoadedConfig, executor: Executor, signal: AbortSignal): Promise<Issue[]> {
  return [
    ...(await broughtIssues(executor, loaded.options.backends ?? [], signal)),
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

/** Whether the store is there and opens; which secrets the tools need is known only when they run. */
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

/** A folder as it is shown. */
export function reportOf({ path, digest, loaded, refused }: ToolsFolder): Omit<ToolsFolder, 'tools'> {
  return { path, digest, loaded, refused }
}
