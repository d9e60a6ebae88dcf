import { type Issue, ToolError } from '@gantry/contract'
import { createExecutor, type DefinedTool, demoTools } from '@gantry/core'
import type { ConfigRequest, LoadedConfig } from './config.ts'
import { loadConfig } from './load.ts'
import { configError } from './problem.ts'

/** What a configuration amounts to. */
export interface ConfigSummary {
  readonly file: string | null
  readonly tools: number
  readonly demo: boolean
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
  const gantry = createExecutor({ ...options, tools: loaded.demo ? demoTools() : [] })
  try {
    const issues = tools.flatMap((tool, index) => toolIssues(tool, index, (each) => gantry.register(each)))
    if (issues.length > 0) throw configError(loaded.file, `The configuration has wrong tools.`, issues)
    return summaryOf(loaded, gantry.catalog.size)
  } finally {
    await gantry.close()
  }
}

function toolIssues(tool: DefinedTool, index: number, register: (tool: DefinedTool) => unknown): Issue[] {
  try {
    register(tool)
    return []
  } catch (error) {
    if (!ToolError.is(error)) throw error
    const at = `/tools/${index}`
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
    policy: options.policy !== undefined,
    limits: { ...options.limits },
    secrets: options.secrets === undefined ? 'none' : 'yes',
    warnings,
  }
}
