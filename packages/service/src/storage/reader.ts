import type { Identity, Issue } from '@gantry/contract'
import { toolMatcher } from '@gantry/core/internal/ids/tool-pattern'

/**
 * Who reads: somebody, for whom calls of tools that are not there for him are not there either, and of chains
 * and programs, which may call anything, only his own; or the service for a tenant, by its name.
 */
export type Reader = string | Pick<Identity, 'tenant' | 'principal' | 'tools'>

export function tenantOf(reader: Reader): string {
  return typeof reader === 'string' ? reader : reader.tenant
}

/** The two values that `seenSql` asks for, of which the first is null for who sees all calls of his tenant. */
export function seenValues(reader: Reader): readonly [string | null, string | null] {
  const beginnings = beginningsOf(reader)
  if (typeof reader === 'string' || beginnings === undefined) return [null, null]
  return [JSON.stringify(beginnings), reader.principal]
}

/** Whether a call `c` can be seen; the parameters are those of `seenValues`. */
export function seenSql(beginnings: string, principal: string): string {
  return `(${beginnings}::text is null or case when c.kind <> 'call' then c.principal = ${principal}::text
    else ${fitsSql('c.tool', beginnings)} end)`
}

/** Whether the tool in a column is there for somebody; the parameter is the first of `seenValues`, and not null. */
export function fitsSql(tool: string, beginnings: string): string {
  const word = (index: number): string => `split_part(${tool}, ':', ${index})`
  const name = `lower(${word(1)} || ':' || ${word(2)}) || ':' || split_part(${word(3)}, '+', 1) || ':'`
  return `exists (select from json_array_elements_text(${beginnings}::json) b where starts_with(${name}, b))`
}

/** The same for a tool that is known by its name, with or without a version. */
export function seesTool(reader: Reader, tool: string): boolean {
  const name = nameOf(tool)
  return beginningsOf(reader)?.some((beginning) => name.startsWith(beginning)) ?? true
}

/** What the names of the tools that somebody is bound to begin with; a list that is not understood whole gives none. */
function beginningsOf(reader: Reader): readonly string[] | undefined {
  if (typeof reader === 'string' || reader.tools === undefined) return undefined
  const issues: Issue[] = []
  toolMatcher(reader.tools, '', issues)
  return issues.length > 0 ? [] : reader.tools.map(beginningOf)
}

function beginningOf(pattern: string): string {
  if (pattern.endsWith('*')) return pattern.slice(0, -1).toLowerCase()
  const [, , version] = pattern.split(':')
  return version === undefined ? `${pattern.toLowerCase()}:` : nameOf(pattern)
}

/** As catalogs compare tools: without case but in the version, and without build metadata. */
function nameOf(tool: string): string {
  const [namespace = '', name = '', version = ''] = tool.split(':')
  return `${`${namespace}:${name}`.toLowerCase()}:${version.split('+')[0]}:`
}
