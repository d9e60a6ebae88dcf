import type { Issue } from '@gantry/contract'
import type { Backend, DefinedTool, Embedder, Policy, SecretSource } from '@gantry/core'

/** What of a configuration is not data: it can only come from a module. */
export interface LiveParts {
  readonly tools: readonly DefinedTool[]
  readonly policy: Policy | undefined
  readonly secrets: SecretSource | undefined
  readonly knowledge: { readonly embedder?: Embedder }
}

/** Keys that a class may hold where `Object.keys` does not see them. */
export const liveKeys: readonly string[] = ['tools', 'backends', 'policy', 'secrets']

type Members = { readonly [key: string]: unknown }

/** Tells what lives in this process from plain data, and notes what is wrong with the former. */
export function separate(
  said: Members,
  file: string,
  issues: Issue[],
): { data: Members; live: LiveParts; backends: readonly unknown[]; tools: readonly unknown[] } {
  const { tools, backends, policy, secrets, knowledge, ...data } = said
  const fromModule = /\.[mc]?[jt]s$/.test(file)
  const isLive = (value: unknown, method: string): boolean => fromModule && hasMethod(value, method)
  const { embedder, ...kept } = isObject(knowledge) ? knowledge : {}
  const live: LiveParts = {
    tools: fromModule ? toolsOf(tools, issues) : [],
    policy: isLive(policy, 'decide') ? (policy as Policy) : undefined,
    secrets: isLive(secrets, 'get') ? (secrets as SecretSource) : undefined,
    knowledge: isLive(embedder, 'embed') ? { embedder: embedder as Embedder } : {},
  }
  const rest = {
    ...(policy === undefined || live.policy !== undefined ? {} : { policy }),
    ...(secrets === undefined || live.secrets !== undefined ? {} : { secrets }),
    ...(knowledge === undefined ? {} : { knowledge: live.knowledge.embedder === undefined ? knowledge : kept }),
  }
  return {
    data: { ...data, ...rest },
    live,
    backends: listOf(backends, '/backends', 'must be a list of backends', issues),
    tools: fromModule ? [] : listOf(tools, '/tools', 'must be a list of tool definitions', issues),
  }
}

/** Each tool must come from `defineTool`; the executor checks the rest. */
function toolsOf(tools: unknown, issues: Issue[]): readonly DefinedTool[] {
  const list = listOf(tools, '/tools', 'must be a list of what defineTool returns', issues)
  list.forEach((tool, index) => {
    const defined = isObject(tool) && 'tool' in tool && 'run' in tool
    if (!defined) issues.push({ path: `/tools/${index}`, message: 'must be what defineTool returns' })
  })
  return list as readonly DefinedTool[]
}

/** Whether something is a backend already, and not data that describes one. */
export function isBackend(value: unknown): value is Backend {
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
