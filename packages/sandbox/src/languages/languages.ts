import { ToolError } from '@gantry/contract'
import { quote } from '@gantry/core/internal/ids/quote'
import type { Refusal } from '@gantry/core/internal/runtimes/runtime'
import { nearest } from '@gantry/core/internal/search/near'
import { checkLanguage, type Language } from './language.ts'
import { builtInLanguages } from './language-table.ts'

export type { Language } from './language.ts'

/** A row as it is given to `createLanguages`. */
export type LanguageRow = Language

/** The languages that code can be in. */
export interface Languages {
  /** Each under its one name. */
  readonly all: readonly Language[]
  /** By name or by another name, in any case. Throws INPUT_INVALID at `/language` with the nearest names. */
  get(name: string): Language
}

/** Which languages a root file system has the programs for, and why it has not those of the others, by name. */
export interface LanguagesFound {
  readonly available: readonly string[]
  /** Those of them whose interpreter waits for code, and can keep its state. */
  readonly waiting: readonly string[]
  /** Those of them whose programs can ask their host while they run. */
  readonly asking: readonly string[]
  readonly missing: ReadonlyMap<string, Refusal>
}

/** Folders of a root file system that programs are looked for in, and the PATH of what runs there. */
export const programFolders = ['/usr/local/bin', '/usr/bin', '/bin'] as const

/**
 * The built-in languages and further ones; a row takes the place of a built-in one of its name.
 * Throws CONFIG_INVALID for rows that are wrong or share a name.
 */
export function createLanguages(own: readonly LanguageRow[] = []): Languages {
  for (const [index, row] of own.entries()) checkLanguage(row, `/${index}`)
  const replaced = new Set(own.map(({ name }) => name))
  const all = [...builtInLanguages.filter(({ name }) => !replaced.has(name)), ...own]
  const named = new Map<string, Language>()
  for (const row of all) {
    for (const name of [row.name, ...(row.aliases ?? [])]) {
      const other = named.get(name)
      if (other !== undefined) throw taken(name, other, row)
      named.set(name, row)
    }
  }
  return { all, get: (name) => named.get(name.toLowerCase()) ?? unknown(name, named.keys(), all) }
}

/** Looks for the programs of each language; `has` says whether a path is there, inside of the root file system. */
export function languagesIn({ all }: Pick<Languages, 'all'>, has: (path: string) => boolean): LanguagesFound {
  const missing = new Map<string, Refusal>()
  for (const { name, needs = [], install } of all) {
    const absent = needs.find((program) => !programFolders.some((folder) => has(`${folder}/${program}`)))
    if (absent === undefined) continue
    const reason = `There is no ${absent} in ${programFolders.join(', ')} of the sandbox, which ${name} needs.`
    missing.set(name, { reason, remedy: install ?? `Install ${absent} there.` })
  }
  const there = all.filter(({ name }) => !missing.has(name))
  const waiting = there.filter(({ driver }) => driver !== undefined)
  const asking = waiting.filter(({ gateway }) => gateway === true)
  const names = (rows: readonly Language[]): string[] => rows.map(({ name }) => name)
  return { available: names(there), waiting: names(waiting), asking: names(asking), missing }
}

function unknown(name: string, known: Iterable<string>, all: readonly Language[]): never {
  const near = nearest(name, known)
  const names = all.map((row) => row.name).join(', ')
  const hint = near.length === 0 ? '.' : `; did you mean ${near.map((one) => quote(one)).join(' or ')}?`
  throw new ToolError('INPUT_INVALID', `${quote(name)} is not a language that is set up${hint} There are ${names}.`, {
    details: { issues: [{ path: '/language', message: `must be one of ${names}` }], nearest: near },
  })
}

function taken(name: string, other: Language, row: Language): ToolError {
  const message = `The name ${quote(name)} is that of two languages, ${other.name} and ${row.name}.`
  return new ToolError('CONFIG_INVALID', message, { details: { issues: [{ path: '', message }] } })
}
