import type { Issue } from '@gantry/contract'
import { createExecutor, demoTools } from '@gantry/core'
import type { ConfigRequest, LoadedConfig } from './config.ts'
import { loadConfig } from './load.ts'
import { configError, isToolError, reading, throwingValue } from './problem.ts'

/** What a configuration amounts to. */
export interface ConfigSummary {
  readonly file: string | null
  readonly tools: number
  readonly demo: boolean
  /** Those of the configuration, as a tool's binding names them. */
  readonly backends: readonly string[]
  readonly policy: boolean
  /** Only what differs from the defaults. */
  readonly limits: { readonly [name: string]: unknown }
  readonly secrets: 'none' | 'yes'
  readonly warnings: readonly string[]
}

/** Loads the configuration and tries every tool in it; throws CONFIG_INVALID with all that is wrong. */
export async function checkConfig(request: ConfigRequest): Promise<ConfigSummary> {
  const loaded = await loadConfig(request)
  const { tools = [], ...options } = loaded.options
  const builtIn = loaded.demo ? demoTools() : []
  const gantry = reading(loaded.file, () => createExecutor({ ...options, tools: builtIn }))
  try {
    const issues = tools.flatMap((tool, index) =>
      toolIssues(loaded.file, `/tools/${index}`, () => gantry.register(tool)),
    )
    if (issues.length > 0) throw configError(loaded.file, `The configuration has wrong tools.`, issues)
    return summaryOf(loaded, gantry.catalog.size)
  } finally {
    await gantry.close()
  }
}

function toolIssues(file: string | undefined, at: string, register: () => unknown): Issue[] {
  try {
    register()
    return []
  } catch (error) {
    if (!isToolError(error)) throw file === undefined ? error : throwingValue(file, at, error)
    const found = error.details?.issues ?? []
    if (found.length === 0) return [{ path: at, message: error.message }]
    return found.map(({ path, message }) => ({ path: `${at}${path}`, message }))
  }
}

function summaryOf({ file, demo, options, warnings }: LoadedConfig, tools: number): ConfigSummary {
  return {
    file: file ?? null,
    tools,
    demo,
    backends: (options.backends ?? []).map(({ kind, name }) => `${kind}:${name}`),
    policy: options.policy !== undefined,
    limits: { ...options.limits },
    secrets: options.secrets === undefined ? 'none' : 'yes',
    warnings,
  }
}
