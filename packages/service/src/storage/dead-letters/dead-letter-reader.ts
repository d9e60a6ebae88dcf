import type { CallKind, Identity } from '@gantry/contract'
import type { ToolVisibility } from '@gantry/core'
import { holds } from '@gantry/core/internal/pipeline/authorize'

/**
 * Who reads dead letters: somebody, and what a tool is to him; or the service for a tenant, by its name.
 * - A letter of a tool that he is not shown is not there for him, unless he operates and the tool is there for him.
 * - One of no tool, as of a message that could not be read, is there for those who operate and are bound to no tools.
 * - Of chains and programs, which may call anything, those of others are not there for one who is bound to tools.
 */
export type LetterReader = string | { readonly identity: Identity; readonly standing: (tool: string) => ToolVisibility }

/** Who holds it deals with dead letters, and is shown what was asked for. */
export const operatePermission = 'gantry:operate'

/** What of a letter decides who may see it. */
export interface LetterSubject {
  readonly tool: string | null
  /** Of the call, if there is one. */
  readonly call?: { readonly kind: CallKind; readonly principal: string } | null
}

export function tenantOfReader(reader: LetterReader): string {
  return typeof reader === 'string' ? reader : reader.identity.tenant
}

/** Whether he is shown what was asked for. */
export function seesPayload(reader: LetterReader): boolean {
  return typeof reader === 'string' || holds(reader.identity, operatePermission)
}

export function seesLetter(reader: LetterReader, { tool, call }: LetterSubject): boolean {
  if (typeof reader === 'string') return true
  const { principal, tools } = reader.identity
  if (tools !== undefined && call && call.kind !== 'call') return call.principal === principal
  return tool === null ? seesToolless(reader) : seesTool(reader, tool)
}

/** The three values that `seenLettersSql` asks for, of which the first is null for who sees all letters of his tenant. */
export function seenLetters(reader: LetterReader, tools: readonly string[]): readonly unknown[] {
  if (typeof reader === 'string') return [null, null, null]
  const { principal, tools: bound } = reader.identity
  const seen = tools.filter((tool) => seesTool(reader, tool))
  return [JSON.stringify(seen), seesToolless(reader), bound === undefined ? null : principal]
}

/** The same for a letter `d` and its call `c`; a tool that is in none of the given names is not there. */
export function seenLettersSql(tools: string, toolless: string, own: string): string {
  return `(${tools}::text is null or case
    when ${own}::text is not null and c.kind <> 'call' then c.principal = ${own}
    when d.tool is null then ${toolless}::boolean
    else d.tool = any (array(select json_array_elements_text(${tools}::json))) end)`
}

type Somebody = Exclude<LetterReader, string>

function seesToolless({ identity }: Somebody): boolean {
  return identity.tools === undefined && holds(identity, operatePermission)
}

function seesTool({ identity, standing }: Somebody, tool: string): boolean {
  if (tool === 'chain') return identity.tools === undefined
  const known = standing(tool)
  return known === 'visible' || (known === 'hidden' && holds(identity, operatePermission))
}
