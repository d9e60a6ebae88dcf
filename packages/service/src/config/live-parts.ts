import type { Issue } from '@gantry/contract'
import type { Backend, DefinedTool, Policy, SecretSource } from '@gantry/core'

/** What of a configuration is not data: it can only come from a module. */
export interface LiveParts {
  readonly tools: readonly DefinedTool[]
  readonly backends: readonly Backend[]
  readonly policy: Policy | undefined
  readonly secrets: SecretSource | undefined
}

export const liveKeys: readonly (keyof LiveParts)[] = ['tools', 'backends', 'policy', 'secrets']

type Members = { readonly [key: string]: unknown }

/** Tells what lives in this process from plain data, and notes what is wrong with the former. */
export function separate(said: Members, file: string, issues: Issue[]): { data: Members; live: LiveParts } {
  const { tools, backends, policy, secrets, ...data } = said
  const fromModule = /\.[mc]?[jt]s$/.test(file)
  const isLive = (value: unknown, method: string): boolean => fromModule && hasMethod(value, method)
  const live: LiveParts = {
    tools: fromModule ? toolsOf(tools, issues) : [],
    backends: fromModule ? backendsOf(backends, issues) : [],
    policy: isLive(policy, 'decide') ? (policy as Policy) : undefined,
    secrets: isLive(secrets, 'get') ? (secrets as SecretSource) : undefined,
  }
  if (!fromModule && tools !== undefined) issues.push({ path: '/tools', message: onlyInModules })
  if (!fromModule && backends !== undefined) {
    issues.push({ path: '/backends', message: `${onlyInModules}; backends as data come in a later version` })
  }
  const rest = {
    ...(policy === undefined || live.policy !== undefined ? {} : { policy }),
    ...(secrets === undefined || live.secrets !== undefined ? {} : { secrets }),
  }
  return { data: { ...data, ...rest }, live }
}

const onlyInModules = 'can only be defined in gantry.config.ts, .mjs or .js'

/** Each tool must come from `defineTool`; the executor checks the rest. */
function toolsOf(tools: unknown, issues: Issue[]): readonly DefinedTool[] {
  const list = listOf(tools, '/tools', 'must be a list of what defineTool returns', issues)
  list.forEach((tool, index) => {
    const defined = isObject(tool) && 'tool' in tool && 'run' in tool
    if (!defined) issues.push({ path: `/tools/${index}`, message: 'must be what defineTool returns' })
  })
  return list as readonly DefinedTool[]
}

function backendsOf(backends: unknown, issues: Issue[]): readonly Backend[] {
  const list = listOf(backends, '/backends', 'must be a list of backends', issues)
  list.forEach((backend, index) => {
    if (isBackend(backend)) return
    issues.push({ path: `/backends/${index}`, message: 'must have a kind, a name (both text) and a function call' })
  })
  return list as readonly Backend[]
}

function isBackend(value: unknown): boolean {
  if (!isObject(value) || !hasMethod(value, 'call')) return false
  return [value.kind, value.name].every((text) => typeof text === 'string' && text !== '')
}

/** The members of a list that may be left out; each is read once, so that later reads cannot differ. */
function listOf(value: unknown, path: string, message: string, issues: Issue[]): readonly unknown[] {
  if (Array.isArray(value)) return [...value]
  if (value !== undefined) issues.push({ path, message })
  return []
}

function hasMethod(value: unknown, method: string): boolean {
  return isObject(value) && typeof value[method] === 'function'
}

function isObject(value: unknown): value is Members {
  return typeof value === 'object' && value !== null
}
