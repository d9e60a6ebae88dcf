import { type Issue, ToolError } from '@gantry/contract'
import { unknownKeys } from '@gantry/core/internal/search/near'
import { outsideOf, parseAllow } from '../egress-proxy/allow.ts'

const keys = ['secret', 'hosts', 'in']
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
  const issues = [...unknownKeys(credential, keys, path, 'is not an option of a credential')]
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

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
