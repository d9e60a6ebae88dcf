import { type Issue, type SandboxedBinding, type Tool, ToolError } from '@gantry/contract'
import { unknownKeys } from '@gantry/core/internal/search/near'
import { outsideOf, parseAllow } from '../egress-proxy/origins.ts'

/** A binding that was found sound: exactly one kind of program, or the arguments as the program. */
export type SandboxedPlan = SandboxedBinding & {
  readonly profile?: string
  readonly runtime?: string
  readonly egress?: readonly string[]
}

const keys = [
  ...['kind', 'name', 'command', 'script', 'code', 'language', 'takes', 'files', 'env', 'credentials', 'limits'],
  'output',
]

/** Reads a tool's binding; throws CONFIG_INVALID with all that is wrong with it. */
export function readBinding(binding: { readonly [option: string]: unknown }, tool: Tool): SandboxedPlan {
  const issues = [...unknownKeys(binding, keys, '', 'is not an option of a sandboxed tool'), ...programIssues(binding)]
  if (tool.secrets !== undefined && tool.secrets.length > 0) {
    const message = 'cannot be given to a program in a sandbox, which could keep them; name them in credentials'
    issues.push({ path: '/secrets', message })
  }
  // A call of a built-in tool says itself what it reaches, within what the tool may.
  const reach = binding.takes === undefined ? (tool.egress ?? []) : tool.egress
  issues.push(...credentialIssues(binding.credentials, '/credentials', reach), ...clashes(binding))
  if (issues.length > 0) {
    const text = issues.map(({ path, message }) => `${path} ${message}`).join('; ')
    const id = `${tool.namespace}:${tool.name}`
    throw new ToolError('CONFIG_INVALID', `The sandboxed binding of ${id} is wrong: ${text}.`, { details: { issues } })
  }
  const { profile, runtime, egress } = tool
  return {
    ...(binding as SandboxedBinding),
    ...(profile === undefined ? {} : { profile }),
    ...(runtime === undefined ? {} : { runtime }),
    ...(egress === undefined ? {} : { egress }),
  }
}

/** A variable has one value. */
function clashes({ env, credentials }: { readonly [option: string]: unknown }): Issue[] {
  if (!isObject(env) || !isObject(credentials)) return []
  const twice = Object.keys(credentials).filter((name) => Object.hasOwn(env, name))
  return twice.map((name) => ({ path: `/env/${name}`, message: 'is a credential too' }))
}

function programIssues(binding: { readonly [option: string]: unknown }): Issue[] {
  const { command, script, code, language, takes, files, env, limits, output } = binding
  const programs = [command, script, code, takes].filter((program) => program !== undefined)
  const checks: readonly (readonly [string, boolean, string])[] = [
    ['/command', programs.length === 1, 'must be there, or script, or code, and only one of them'],
    ['/command', command === undefined || (isTextList(command) && command.length > 0), 'must be a list of texts'],
    ['/script', script === undefined || typeof script === 'string', 'must be a text'],
    ['/code', code === undefined || typeof code === 'string', 'must be a text'],
    ['/language', (code === undefined) === (language === undefined), 'goes with code, and code with a language'],
    ['/takes', takes === undefined || takes === 'code' || takes === 'shell', "must be 'code' or 'shell'"],
    ['/files', files === undefined || isObject(files), 'must be an object of files'],
    ['/env', env === undefined || (isObject(env) && isTextList(Object.values(env))), 'must be an object of texts'],
    ['/limits', limits === undefined || isObject(limits), 'must be an object of limits'],
    [
      '/output',
      output === undefined || ['auto', 'json', 'text'].includes(output as string),
      'must be auto, json or text',
    ],
  ]
  return checks.flatMap(([path, fits, message]) => (fits ? [] : [{ path, message }]))
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function isTextList(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((item) => typeof item === 'string')
}

const credentialKeys = ['secret', 'hosts', 'in']
const places: readonly unknown[] = ['header', 'query', 'body']
const most = 32

/** What is wrong with the `credentials` of a binding, by path; `egress` is what its tool may reach, where that is said. */
export function credentialIssues(credentials: unknown, at: string, egress?: readonly string[]): Issue[] {
  if (credentials === undefined) return []
  if (!isObject(credentials))
    return [{ path: at, message: 'must be an object of credentials by the name of a variable' }]
  const entries = Object.entries(credentials)
  const tooMany = entries.length > most ? [{ path: at, message: `must not be more than ${most}` }] : []
  return [...tooMany, ...entries.flatMap(([name, value]) => issuesOf(name, value, `${at}/${name}`, egress))]
}

function issuesOf(name: string, credential: unknown, path: string, egress: readonly string[] | undefined): Issue[] {
  if (!/^[A-Za-z_][A-Za-z0-9_]{0,127}$/.test(name)) return [{ path, message: 'is not the name of a variable' }]
  if (!isObject(credential)) return [{ path, message: 'must be { secret, hosts }' }]
  const { secret, hosts, in: where } = credential as { secret?: unknown; hosts?: unknown; in?: unknown }
  const issues = [...unknownKeys(credential, credentialKeys, path, 'is not an option of a credential')]
  if (typeof secret !== 'string' || secret === '')
    issues.push({ path: `${path}/secret`, message: 'must name a secret' })
  if (
    where !== undefined &&
    !(Array.isArray(where) && where.length > 0 && where.every((one) => places.includes(one)))
  ) {
    issues.push({ path: `${path}/in`, message: 'must be a list of header, query and body' })
  }
  return [...issues, ...hostIssues(hosts, `${path}/hosts`, egress)]
}

function hostIssues(hosts: unknown, path: string, egress: readonly string[] | undefined): Issue[] {
  if (!Array.isArray(hosts) || hosts.length === 0) return [{ path, message: 'must be a list of origins' }]
  try {
    parseAllow(hosts)
  } catch (error) {
    const found = ToolError.is(error) ? (error.details?.issues ?? []) : []
    return found.map((issue) => ({ ...issue, path: issue.path.replace('/network/allow', path) }))
  }
  const [outside] = egress === undefined ? [] : outsideOf(hosts, egress)
  if (outside === undefined) return []
  return [{ path, message: `names ${outside}, which is not in the tool's egress, so that it cannot be reached` }]
}
