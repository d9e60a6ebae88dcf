import { type Issue, type Json, type JsonObject, ToolError } from '@gantry/contract'
import { copyJson, type DefinedTool, environmentSecrets, JsonError, type Policy, type SecretSource } from '@gantry/core'
import type { LoadedConfig } from './config.ts'
import { type Overrides, override } from './environment.ts'
import { configError } from './problem.ts'
import { configIssues } from './validate.ts'

/** What of a configuration is not data: it can only come from a module. */
interface LiveParts {
  readonly tools: readonly DefinedTool[]
  readonly policy: Policy | undefined
  readonly secrets: SecretSource | undefined
}

/** Checks what a file said together with the environment, and makes executor options of it; lists all that is wrong. */
export function composeConfig(
  file: string,
  said: unknown,
  overrides: Overrides,
  environment: NodeJS.ProcessEnv,
): Omit<LoadedConfig, 'warnings'> {
  if (typeof said !== 'object' || said === null || Array.isArray(said)) {
    throw configError(file, `The configuration ${file} must be an object.`, [])
  }
  const issues: Issue[] = [...overrides.issues]
  const { data, live } = separate(said as { [key: string]: unknown }, file, issues)
  const document = override(plain(data, issues), overrides)
  issues.push(...configIssues(document))
  if (issues.length > 0) {
    const count = issues.length === 1 ? 'a problem' : `${issues.length} problems`
    throw configError(file, `The configuration ${file} has ${count}.`, issues)
  }
  const { demo, $schema: _schema, secrets, ...options } = document
  return {
    file,
    demo: demo === true,
    options: {
      ...options,
      ...(secrets === undefined ? {} : { secrets: environmentSecrets(variablesOf(secrets), environment) }),
      ...(live.tools.length === 0 ? {} : { tools: live.tools }),
      ...(live.policy === undefined ? {} : { policy: live.policy }),
      ...(live.secrets === undefined ? {} : { secrets: live.secrets }),
    },
  }
}

function separate(said: { readonly [key: string]: unknown }, file: string, issues: Issue[]) {
  const { tools, policy, secrets, ...data } = said
  const fromModule = /\.[mc]?[jt]s$/.test(file)
  const isLive = (value: unknown, method: string): boolean =>
    fromModule &&
    typeof value === 'object' &&
    value !== null &&
    typeof (value as Json & object)[method as never] === 'function'
  const live: LiveParts = {
    tools: fromModule ? toolsOf(tools, issues) : [],
    policy: isLive(policy, 'decide') ? (policy as Policy) : undefined,
    secrets: isLive(secrets, 'get') ? (secrets as SecretSource) : undefined,
  }
  if (!fromModule && tools !== undefined) {
    issues.push({ path: '/tools', message: 'can only be defined in gantry.config.ts, .mjs or .js' })
  }
  const rest = {
    ...(policy === undefined || live.policy !== undefined ? {} : { policy }),
    ...(secrets === undefined || live.secrets !== undefined ? {} : { secrets }),
  }
  return { data: { ...data, ...rest }, live }
}

/** Each tool must come from `defineTool`; the executor checks the rest. */
function toolsOf(tools: unknown, issues: Issue[]): readonly DefinedTool[] {
  if (tools === undefined) return []
  if (!Array.isArray(tools)) {
    issues.push({ path: '/tools', message: 'must be a list of what defineTool returns' })
    return []
  }
  tools.forEach((tool: unknown, index) => {
    const defined = typeof tool === 'object' && tool !== null && 'tool' in tool && 'run' in tool
    if (!defined) issues.push({ path: `/tools/${index}`, message: 'must be what defineTool returns' })
  })
  return tools as readonly DefinedTool[]
}

function plain(data: object, issues: Issue[]): JsonObject {
  try {
    return copyJson(data) as JsonObject
  } catch (error) {
    if (!(error instanceof JsonError)) throw ToolError.is(error) ? error : new Error('unreadable', { cause: error })
    issues.push({ path: error.path, message: error.message })
    return {}
  }
}

function variablesOf(secrets: Json): { [name: string]: string } {
  const entries = Object.entries(secrets as { readonly [name: string]: { readonly env: string } })
  return Object.fromEntries(entries.map(([name, { env }]) => [name, env]))
}
