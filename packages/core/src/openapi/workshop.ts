import type { Json, JsonSchema } from '@gantry/contract'
import { defaultDialect } from './dialects.ts'
import { createHidden, type Direction } from './hidden.ts'
import { measure, type Size } from './measure.ts'
import { mendTogether } from './mend.ts'
import { createNamer } from './names.ts'
import type { Report } from './report.ts'
import { lookUp, refused, type Source } from './source.ts'
import { translateSchema } from './translate.ts'
import { attempt, Unusable } from './unusable.ts'

/** A schema of its own: the arguments or the output of one tool, or what a reference leads to. */
export interface Sheet {
  /** Where it stands in the document. */
  readonly path: string
  /** Names in `$defs` that it uses. */
  readonly refs: Set<string>
  schema: JsonSchema
  /** Why it cannot be used. */
  fault?: string
  size: Size
}

/** How large the schemas of one tool may become, all definitions included. */
const most: { readonly [Name in Direction]: Size } = {
  input: { bytes: 262_144, nodes: 15_000, depth: 60 },
  output: { bytes: 32_768, nodes: 15_000, depth: 60 },
}
/** And all tools of a document together; one definition counts for each tool that uses it. */
const mostInAll = 134_217_728
const leftOffBytes = 100
const leftOff: JsonSchema = { description: 'Not described, because the whole schema would be too large.' }

/**
 * Makes the schemas of one direction. First `sheet` and `translate` for every operation, then `finish` once, then `whole`
 * for each sheet. What a reference leads to is translated once, however many tools use it; nothing is ever expanded.
 */
export interface Workshop {
  sheet(path: string): Sheet
  /** Translates a schema of the document for a sheet; throws Unusable. */
  translate(sheet: Sheet, schema: Json, path: string): JsonSchema
  /** Translates what references lead to, checks everything together and drops keywords that do not hold. */
  finish(): void
  /** The schema with the definitions it uses, nearest first; those beyond the size allow anything. Throws Unusable. */
  whole(sheet: Sheet): { readonly schema: JsonSchema; readonly cut: number }
}

export function createWorkshop(source: Source, direction: Direction, report: Report): Workshop {
  const sheets: Sheet[] = []
  const definitions = new Map<string, Sheet>()
  const free = createNamer(definitions)
  const originals = new Map<string, Json>()
  const names = new Map<string, string>()
  let total = 0
  const dialect = defaultDialect(source)
  const hiddenIn = createHidden(source, direction)
  const warn = (path: string, message: string): void => report.warn(path, message)

  const nameOf = (reference: string): string => {
    const { path, value } = lookUp(source, reference)
    const known = names.get(path)
    if (known !== undefined) return known
    const name = free(definitionName(path))
    names.set(path, name)
    originals.set(name, value)
    definitions.set(name, newSheet(path))
    return name
  }
  const translate = (sheet: Sheet, schema: Json, path: string): JsonSchema => {
    const refer = (reference: string): string => {
      const name = nameOf(reference)
      sheet.refs.add(name)
      return name
    }
    return translateSchema(schema, path, { direction, hiddenIn, dialect, refer, warn })
  }
  const define = (name: string, sheet: Sheet): void => {
    const made = attempt(() => translate(sheet, originals.get(name) ?? null, sheet.path))
    if ('value' in made) sheet.schema = made.value
    else sheet.fault = made.reason
  }
  return {
    sheet(path) {
      const sheet = newSheet(path)
      sheets.push(sheet)
      return sheet
    },
    translate,
    finish() {
      // A map is walked in the order of insertion, and what is added on the way is still met.
      for (const [name, sheet] of definitions) define(name, sheet)
      mendTogether(definitions, sheets, warn)
      for (const sheet of [...definitions.values(), ...sheets]) sheet.size = measure(sheet.schema)
    },
    whole(sheet) {
      const { bytes, ...whole } = gather(sheet, definitions, most[direction])
      total += bytes
      if (total > mostInAll) throw refused('The tools of the OpenAPI document are too large together; choose some.', '')
      return whole
    },
  }
}

/** Stands for a definition that fits nowhere. */
const nothing: Sheet = { path: '', refs: new Set(), schema: leftOff, size: { bytes: Infinity, nodes: 0, depth: 0 } }

function newSheet(path: string): Sheet {
  return { path, refs: new Set(), schema: {}, size: { bytes: 0, nodes: 0, depth: 0 } }
}

/** `Pet` for `/components/schemas/Pet`. */
function definitionName(path: string): string {
  const [last = ''] = path.split('/').slice(-1)
  return last.replaceAll(/[^A-Za-z0-9_.-]+/g, '_').slice(0, 100) || 'Schema'
}

interface Whole {
  readonly schema: JsonSchema
  readonly cut: number
  readonly bytes: number
}

function gather(root: Sheet, definitions: ReadonlyMap<string, Sheet>, limit: Size): Whole {
  const usable = (sheet: Sheet): boolean => sheet.size.depth + 2 <= limit.depth
  if (root.fault !== undefined) throw new Unusable(root.fault)
  if (!usable(root) || root.size.bytes > limit.bytes || root.size.nodes > limit.nodes) {
    throw new Unusable(`its schema is larger than ${limit.bytes} bytes or nested too deeply`)
  }
  let { bytes, nodes } = root.size
  let cut = 0
  const found: { [name: string]: JsonSchema } = {}
  const names = new Set(root.refs)
  for (const name of names) {
    const sheet = definitions.get(name)
    if (sheet?.fault !== undefined) throw new Unusable(sheet.fault)
    const { size, schema, refs } = sheet !== undefined && usable(sheet) ? sheet : nothing
    const room = bytes + size.bytes <= limit.bytes && nodes + size.nodes <= limit.nodes
    found[name] = room ? schema : leftOff
    bytes += room ? size.bytes : leftOffBytes
    nodes += room ? size.nodes : 1
    if (!room) cut += 1
    else for (const next of refs) names.add(next)
  }
  if (names.size === 0) return { schema: root.schema, cut, bytes }
  const own = typeof root.schema === 'boolean' ? {} : root.schema
  return { schema: { ...own, $defs: found }, cut, bytes }
}
