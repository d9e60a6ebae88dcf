import type { Identity, Issue } from '@gantry/contract'
import { toolMatcher } from '@gantry/core/internal/ids/tool-pattern'

/**
 * The reader of calls: an identity, which sees calls of tools that are visible to it and only its own chains and programs,
 * because these may call any tool; or the service for a tenant, by the tenant's name.
 */
export type Reader = string | Pick<Identity, 'tenant' | 'principal' | 'tools'>

export function tenantOf(reader: Reader): string {
  return typeof reader === 'string' ? reader : reader.tenant
}

/** The two parameters of `seenSql`; the first is null for a reader that sees all calls of its tenant. */
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

/** Whether the tool in a column is visible to the reader; the parameter is the first of `seenValues`, and not null. */
export function fitsSql(tool: string, beginnings: string): string {
  const word = (index: number): string => `split_part(${tool}, ':', ${index})`
  const name = `lower(${word(1)} || ':' || ${word(2)}) || ':' || split_part(${word(3)}, '+', 1) || ':'`
  return `exists (select from json_array_elements_text(${beginnings}::json) b where starts_with(${name}, b))`
}

/** As `fitsSql`, for the name of a tool, with or without a version. */
export function seesTool(reader: Reader, tool: string): boolean {
  const name = nameOf(tool)
  return beginningsOf(reader)?.some((beginning) => name.startsWith(beginning)) ?? true
}

/** The name prefixes of the tools that a reader is bound to; a list with an invalid pattern gives none. */
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

/** The form in which catalogs compare tools: case-insensitive except for the version, without build metadata. */
function nameOf(tool: string): string {
  const [namespace = '', name = '', version = ''] = tool.split(':')
  return `${`${namespace}:${name}`.toLowerCase()}:${version.split('+')[0]}:`
}
