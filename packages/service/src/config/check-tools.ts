import type { BackendBinding, Issue, Tool } from '@gantry/contract'
import type { Backend, CatalogEntry, Executor } from '@gantry/core'
import { nearest } from '@gantry/core/internal/search/near'
import { knowledgeBackend } from '@gantry/knowledge'
import { sandboxedBackend } from '@gantry/sandbox/internal/backends/sandboxed'
import { webBackend } from '@gantry/tools'
import { isToolError } from './problem.ts'

const nothing = (): Promise<never> => Promise.reject(new Error('nothing runs in a check'))
/** Every executor has these; here they only look at bindings. */
const everywhere: readonly Backend[] = [sandboxedBackend(nothing), webBackend(), knowledgeBackend(nothing)]

/** What is wrong with the backends that a tool names, as far as it can be told before a call. */
export function bindingIssues(tool: Tool, isLocal: boolean, backends: readonly Backend[]): Issue[] {
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

/** What is wrong with the tools that backends bring, where those are known without connecting: with HTTP. */
export async function broughtIssues(
  gantry: Executor,
  backends: readonly Backend[],
  signal: AbortSignal,
): Promise<Issue[]> {
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

/** The places that an error of ours names, below `at`; anything else thrown goes on. */
export function placesOf(at: string, error: unknown): Issue[] {
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

/** As a call finds it: by kind and name, or the only one of its kind. */
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
  return alike ? `must name one of ${keys.join(', ')}` : `names the backend ${wanted}, which is not there${hint}`
}
