import { type Issue, type SandboxCredential, type Tool, ToolError } from '@gantry/contract'
import { unknownKeys } from '@gantry/core/internal/search/near'
import type { DefinedTool } from '@gantry/core/internal/tools/tool'
import { credentialIssues } from '@gantry/sandbox/internal/backends/binding'
import { parseAllow } from '@gantry/sandbox/internal/egress-proxy/origins'

/** What programs of callers may reach, and which secrets they may use without having them. */
export interface SandboxNetworkOptions {
  /** Origins; narrower than the executor's rules, never wider. All that the rules allow when absent. */
  readonly allow?: readonly string[]
  /** By the variable that holds the placeholder, which is also the name that a call gives. */
  readonly credentials?: { readonly [variable: string]: GrantedCredential }
}

export interface GrantedCredential extends SandboxCredential {
  /** Which tools may use it; all that run a program of their caller when absent. */
  readonly tools?: readonly string[]
}

const keys = ['allow', 'credentials']

/** Gives tools whose callers bring the program what they may reach and use; throws CONFIG_INVALID at `/sandboxNetwork`. */
export function withSandboxNetwork(tools: readonly DefinedTool[], options: SandboxNetworkOptions = {}): DefinedTool[] {
  const takers = tools.filter(({ tool }) => tool.backends.some(({ takes }) => takes !== undefined))
  check(options, takers.map(idOf))
  const { allow, credentials = {} } = options
  return tools.map((defined) => {
    if (!takers.includes(defined)) return defined
    const id = idOf(defined)
    const own = Object.entries(credentials).filter(([, { tools: named }]) => named === undefined || named.includes(id))
    const granted = Object.fromEntries(own.map(([name, { tools: _tools, ...credential }]) => [name, credential]))
    const tool = own.length === 0 ? defined.tool : withGrants(defined.tool, granted)
    return { ...defined, tool: allow === undefined ? tool : { ...tool, egress: allow } }
  })
}

/** A caller names credentials, and sees which there are and what they are for; their values are never shown. */
function withGrants(tool: Tool, credentials: { readonly [variable: string]: SandboxCredential }): Tool {
  const { properties, ...schema } = tool.inputSchema as { readonly properties?: object }
  const each = Object.entries(credentials).map(([name, { hosts }]) => `${name} for ${hosts.join(', ')}`)
  const description =
    'Credentials by name; each is an environment variable whose placeholder becomes the secret in requests to its ' +
    `hosts, which network must allow: ${each.join('; ')}.`
  const grants = { type: 'array', items: { enum: Object.keys(credentials) }, uniqueItems: true, description }
  return {
    ...tool,
    inputSchema: { ...schema, properties: { ...properties, grants } } as Tool['inputSchema'],
    backends: tool.backends.map((binding) => (binding.takes === undefined ? binding : { ...binding, credentials })),
  }
}

function idOf({ tool }: DefinedTool): string {
  return `${tool.namespace}:${tool.name}`
}

function check(options: SandboxNetworkOptions, takers: readonly string[]): void {
  const { allow, credentials } = options
  const at = '/sandboxNetwork'
  const issues = [...unknownKeys(options, keys, at, 'is not an option'), ...allowIssues(allow, `${at}/allow`)]
  const plain = isObject(credentials) ? withoutTools(credentials) : credentials
  const reach = issues.length === 0 ? allow : undefined
  issues.push(
    ...credentialIssues(plain, `${at}/credentials`, reach),
    ...toolIssues(credentials, `${at}/credentials`, takers),
  )
  if (issues.length === 0) return
  const text = issues.map(({ path, message }) => `${path} ${message}`).join('; ')
  throw new ToolError('CONFIG_INVALID', `What programs may reach is wrong: ${text}.`, { details: { issues } })
}

function allowIssues(allow: unknown, path: string): readonly Issue[] {
  if (allow === undefined) return []
  try {
    parseAllow(allow)
    return []
  } catch (error) {
    const found = ToolError.is(error) ? (error.details?.issues ?? []) : []
    return found.map((issue) => ({ ...issue, path: issue.path.replace('/network/allow', path) }))
  }
}

/** As the binding of a tool knows them. */
function withoutTools(credentials: object): object {
  const entries = Object.entries(credentials).map(([name, value]: [string, unknown]) => {
    if (!isObject(value)) return [name, value]
    const { tools: _tools, ...rest } = value as { readonly tools?: unknown }
    return [name, rest]
  })
  return Object.fromEntries(entries)
}

function toolIssues(credentials: unknown, at: string, takers: readonly string[]): readonly Issue[] {
  if (!isObject(credentials)) return []
  return Object.entries(credentials).flatMap(([name, value]: [string, unknown]) => {
    const named = isObject(value) ? (value as { readonly tools?: unknown }).tools : undefined
    if (named === undefined || (Array.isArray(named) && named.every((id) => takers.includes(id)))) return []
    return [{ path: `${at}/${name}/tools`, message: `must be a list of ${takers.join(', ')}` }]
  })
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
