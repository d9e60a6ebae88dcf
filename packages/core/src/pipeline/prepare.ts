import type { ResultTool, Tool } from '@gantry/contract'
import { type CompileOptions, compileSchema, type StandardSchema, type Validator } from '@gantry/json-schema'
import type { ToolContext } from '../backends/backend.ts'
import type { CatalogEntry } from '../catalogs/catalog.ts'
import type { JsonLimits } from '../json/limits.ts'
import type { PipelineLimits } from './ports.ts'

/** A tool version with everything that is worked out once: its checkers and what every result says of it. */
export interface PreparedTool {
  readonly entry: CatalogEntry
  readonly input: Validator | StandardSchema
  readonly output: Validator | StandardSchema | undefined
  /** What can tell the outcome of an earlier run. */
  readonly lookup: LookupFunction | undefined
  readonly argsCopy: { readonly limits: JsonLimits }
  /** `dropped` is reset before each use; a copy is made in one go, so calls cannot meet in it. */
  readonly resultCopy: { readonly limits: JsonLimits; readonly convert: true; readonly dropped: { count: number } }
  readonly resultTool: ResultTool
}

/** What a tool knows of the run under a key: its output, that there was none, or nothing. */
export type LookupAnswer = { readonly found: true; readonly output: unknown } | { readonly found: false } | undefined

/** Asks where the effect would be whether it is there; it must change nothing, and stop on `context.signal`. */
export type LookupFunction = (key: string, context: ToolContext) => LookupAnswer | Promise<LookupAnswer>

/** Prepares each tool version at its first call and forgets it with the version. */
export interface PreparedTools {
  of(entry: CatalogEntry): PreparedTool
  /** Takes a new definition of a version: its vendor's checkers (zod, valibot …) stand in for the JSON Schemas. */
  define(entry: CatalogEntry, parts: LiveParts): void
  forget(id: string): void
}

/** What of a tool lives in this process only, besides the function that runs it. */
export interface LiveParts {
  readonly input: StandardSchema | undefined
  readonly output: StandardSchema | undefined
  readonly lookup: LookupFunction | undefined
}

export function createPreparedTools(limits: PipelineLimits, options: CompileOptions = {}): PreparedTools {
  const prepared = new WeakMap<CatalogEntry, PreparedTool>()
  const live = new Map<string, LiveParts>()
  return {
    of(entry) {
      const known = prepared.get(entry)
      if (known !== undefined) return known
      const { tool } = entry
      const parts = live.get(entry.id)
      const made: PreparedTool = {
        entry,
        input: parts?.input ?? compileSchema(tool.inputSchema, options),
        output:
          parts?.output ?? (tool.outputSchema === undefined ? undefined : compileSchema(tool.outputSchema, options)),
        lookup: parts?.lookup,
        argsCopy: { limits: argsLimits(tool, limits) },
        resultCopy: { limits: resultLimits(tool, limits), convert: true, dropped: { count: 0 } },
        resultTool: Object.freeze({ id: entry.key, version: tool.version }),
      }
      prepared.set(entry, made)
      return made
    },
    define(entry, parts) {
      prepared.delete(entry)
      if (parts.input ?? parts.output ?? parts.lookup) live.set(entry.id, parts)
      else live.delete(entry.id)
    },
    forget: (id) => void live.delete(id),
  }
}

/** A tool may ask for less than the executor allows, never for more. */
function argsLimits({ limits: own }: Tool, limits: PipelineLimits): JsonLimits {
  return {
    bytes: Math.min(own?.argsBytes ?? limits.argsBytes, limits.argsBytes),
    depth: Math.min(own?.argsDepth ?? limits.argsDepth, limits.argsDepth),
    nodes: mostNodes,
  }
}

function resultLimits({ limits: own }: Tool, limits: PipelineLimits): JsonLimits {
  return {
    bytes: Math.min(own?.resultBytes ?? limits.resultBytes, limits.resultBytes),
    depth: Math.min(own?.resultDepth ?? limits.resultDepth, limits.resultDepth),
    nodes: mostNodes,
  }
}

const mostNodes = 1_000_000
