import type { Json, JsonSchema } from '@gantry/contract'
import { defaultDialect } from './dialects.ts'
import { createNamer } from './names.ts'
import type { Report } from './operations.ts'
import { repairAlone, repairTogether } from './repair.ts'
import { attempt, lookUp, measure, type Size, type Source, tooOften, Unusable } from './source.ts'
import { createHidden, type Direction, translateSchema } from './translate.ts'

/** A schema of the document: a part of what a tool takes or gives, or what a reference leads to. */
export interface SchemaDraft {
  /** Its location in the document. */
  readonly path: string
  /** Names in `$defs` that it uses. */
  readonly refs: Set<string>
  schema: JsonSchema
  /** Why it cannot be used. */
  fault?: string
  size: Size
}

/** The arguments or the output of one tool, and the schemas of the document that it is put together from. */
export interface ToolSchema {
  readonly parts: Set<SchemaDraft>
  schema: JsonSchema
  size: Size
}

/** How large the schemas of one tool may become, all definitions included. */
const most: { readonly [Name in Direction]: Size } = {
  input: { bytes: 262_144, nodes: 15_000, depth: 60 },
  output: { bytes: 32_768, nodes: 15_000, depth: 60 },
}
/** A part that tools do not share takes several times the memory of its text. */
const builtAnew = 4
const leftOffBytes = 100
const leftOff: JsonSchema = { description: 'Not described, because the whole schema would be too large.' }

/**
 * Makes the schemas of one direction. First `begin`, `translate` and `end` for every operation, then `finish` once, then
 * `whole` for each. A schema of the document is translated, checked and measured once, however many tools use it, and
 * they share what comes of it; nothing is ever expanded.
 */
export interface SchemaBuilder {
  begin(): ToolSchema
  /** Translates a schema of the document, without the keywords that do not hold; throws Unusable. */
  translate(work: ToolSchema, schema: Json, path: string): JsonSchema
  /** Takes what was put together; throws Unusable when the budget does not allow it. */
  end(work: ToolSchema, schema: JsonSchema): void
  /** Translates what references lead to, checks it together and drops keywords that do not hold. */
  finish(): void
  /** The schema with the definitions it uses, nearest first; those beyond the size allow anything. Throws Unusable. */
  whole(work: ToolSchema): { readonly schema: JsonSchema; readonly cut: number; readonly bytes: number }
}

export function createSchemaBuilder(
  source: Source,
  direction: Direction,
  report: Report,
  budget: SizeBudget,
): SchemaBuilder {
  const made = new Map<Json, SchemaDraft>()
  const sizes = new WeakMap<object, Size>()
  const definitions = new Map<string, SchemaDraft>()
  const free = createNamer(definitions)
  const originals = new Map<string, Json>()
  const names = new Map<string, string>()
  let left = source.allowance
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
    definitions.set(name, newDraft(path))
    return name
  }
  const fill = (draft: SchemaDraft, schema: Json): void => {
    const refer = (reference: string): string => {
      const name = nameOf(reference)
      draft.refs.add(name)
      return name
    }
    const read = attempt(() => translateSchema(schema, draft.path, { direction, hiddenIn, dialect, refer, warn }))
    if ('value' in read && left >= 0) {
      draft.schema = read.value
      left -= measure(read.value).bytes
    } else draft.fault = 'reason' in read ? read.reason : tooOften
  }
  const make = (schema: Json, path: string): SchemaDraft => {
    const draft = newDraft(path)
    fill(draft, schema)
    if (draft.fault === undefined) repairAlone(draft, warn)
    if (typeof draft.schema !== 'boolean') sizes.set(draft.schema, measure(draft.schema))
    return draft
  }
  return {
    begin: () => ({ parts: new Set(), schema: {}, size: noSize }),
    translate(work, schema, path) {
      const draft = made.get(schema) ?? make(schema, path)
      made.set(schema, draft)
      if (draft.fault !== undefined) throw new Unusable(draft.fault)
      work.parts.add(draft)
      return draft.schema
    },
    end(work, schema) {
      work.schema = schema
      work.size = direction === 'input' ? measure(schema) : measure(schema, sizes)
      // An input is taken apart and built anew for each tool, even one that is too large; such an output is never used.
      if (direction === 'input') budget.take(work.size.bytes * builtAnew)
      else if (work.size.bytes <= most.output.bytes) budget.take(work.size.bytes)
    },
    finish() {
      // A map is walked in the order of insertion, and what is added on the way is still met.
      for (const [name, draft] of definitions) fill(draft, originals.get(name) ?? null)
      repairTogether(definitions, warn)
      for (const draft of definitions.values()) draft.size = measure(draft.schema)
    },
    whole: (work) => gather(work, definitions, most[direction], budget),
  }
}

const noSize: Size = { bytes: 0, nodes: 0, depth: 0 }

/** Stands for a definition that fits nowhere. */
const nothing: SchemaDraft = {
  path: '',
  refs: new Set(),
  schema: leftOff,
  size: { bytes: Infinity, nodes: 0, depth: 0 },
}

function newDraft(path: string): SchemaDraft {
  return { path, refs: new Set(), schema: {}, size: noSize }
}

/** `Pet` for `/components/schemas/Pet`. */
function definitionName(path: string): string {
  const [last = ''] = path.split('/').slice(-1)
  return last.replaceAll(/[^A-Za-z0-9_.-]+/g, '_').slice(0, 100) || 'Schema'
}

function gather(
  root: ToolSchema,
  definitions: ReadonlyMap<string, SchemaDraft>,
  limit: Size,
  total: SizeBudget,
): ReturnType<SchemaBuilder['whole']> {
  const usable = ({ size }: { readonly size: Size }): boolean => size.depth + 2 <= limit.depth
  if (!usable(root) || root.size.bytes > limit.bytes || root.size.nodes > limit.nodes) {
    throw new Unusable(`its schema is larger than ${limit.bytes} bytes or nested too deeply`)
  }
  let { bytes, nodes } = root.size
  let cut = 0
  const found: { [name: string]: JsonSchema } = {}
  const names = new Set([...root.parts].flatMap(({ refs }) => [...refs]))
  for (const name of names) {
    const draft = definitions.get(name)
    if (draft?.fault !== undefined) throw new Unusable(draft.fault)
    const { size, schema, refs } = draft !== undefined && usable(draft) ? draft : nothing
    const fits = bytes + size.bytes <= limit.bytes && nodes + size.nodes <= limit.nodes
    const taken = fits ? size.bytes : leftOffBytes
    total.take(taken)
    found[name] = fits ? schema : leftOff
    bytes += taken
    nodes += fits ? size.nodes : 1
    if (!fits) cut += 1
    else for (const next of refs) names.add(next)
  }
  if (names.size === 0) return { schema: root.schema, cut, bytes }
  const own = typeof root.schema === 'boolean' ? {} : root.schema
  return { schema: { ...own, $defs: found }, cut, bytes }
}

const mebibyte = 1_048_576

/** A size that all tools of a document share. Once there is too little left, there is none at all. */
export interface SizeBudget {
  /** Throws Unusable when there is not so much left. */
  take(bytes: number): void
}

/**
 * For what tools carry; a definition counts for each tool that uses it. It is taken as the tools are built, so that a
 * small document cannot make work and memory without end. The largest document we know of takes 16 MiB.
 */
export function toolBudget(): SizeBudget {
  return createBudget(48, (size) => `the document would make more than ${size} of tools; choose some`)
}

/** For the schemas that are compiled to check examples, which costs far more than carrying them. */
export function checkBudget(): SizeBudget {
  return createBudget(4, (size) => `comes after ${size} of schemas that were compiled for others`)
}

function createBudget(mebibytes: number, reason: (size: string) => string): SizeBudget {
  let left = mebibytes * mebibyte
  return {
    take(bytes) {
      left = bytes > left ? -1 : left - bytes
      if (left < 0) throw new Unusable(reason(`${mebibytes} MiB`))
    },
  }
}
