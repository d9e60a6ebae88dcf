import { type ResultTool, type Tool, ToolError } from '@gantry/contract'
import { type CompileOptions, compileSchema, type StandardSchema, type Validator } from '@gantry/json-schema'
import type { ToolContext } from '../backends/backend.ts'
import type { Catalog, CatalogEntry, Viewer } from '../catalogs/catalog.ts'
import { quote } from '../ids/quote.ts'
import type { NamedTool } from '../ids/tool-pattern.ts'
import type { JsonLimits } from '../json/plain.ts'
import type { PipelineLimits, Sources } from './ports.ts'
import type { Run } from './run.ts'

/**
 * Finds the tool version of an id, and refuses a caller that saw another definition. A tool that does not exist for the
 * caller gets the same error as an unknown name. Waits only when a backend of that namespace is not discovered yet.
 */
export function lookup(run: Run, onlooker: Viewer = run): PreparedTool | Promise<PreparedTool> {
  const { tool } = run.request
  try {
    return take(run, findFor(run.ports.catalog, tool, onlooker))
  } catch (error) {
    const pending = isMissing(error) && mayKnow(run, tool) ? pendingOf(run, tool) : undefined
    if (pending === undefined) throw explained(run, error)
    return lookupAgain(run, pending, onlooker)
  }
}

/** A dry run reaches no backend, so it starts no discovery. */
function pendingOf({ request, ports: { sources } }: Run, tool: string): Promise<void> | undefined {
  if (request.recorded === undefined) return sources.pending(tool)
  const unasked = sources.unasked(tool)
  if (unasked === undefined) return undefined
  const message = `The tools of ${unasked} are not discovered yet, and a dry run does not discover them; list the tools first.`
  throw new ToolError('BACKEND_UNAVAILABLE', message, { stage: 'lookup', effect: 'none' })
}

async function lookupAgain(run: Run, pending: Promise<void>, onlooker: Viewer): Promise<PreparedTool> {
  await run.within(pending)
  try {
    return take(run, findFor(run.ports.catalog, run.request.tool, onlooker))
  } catch (error) {
    throw explained(run, error)
  }
}

function take(run: Run, entry: CatalogEntry): PreparedTool {
  const tool = run.ports.prepared.of(entry)
  run.tool = tool
  const { schemaDigest } = run.request
  if (!hasDigest(entry, schemaDigest)) {
    throw new ToolError(
      'CATALOG_STALE',
      `The definition of ${entry.id} is not the one that the caller saw; describe it again.`,
      {
        details: { expected: schemaDigest?.slice(0, 80) ?? '', actual: entry.digest },
      },
    )
  }
  const { deprecated } = entry.tool
  if (deprecated !== undefined) {
    const instead = deprecated.replacement === undefined ? '' : ` Use ${deprecated.replacement}.`
    run.warn({ code: 'DEPRECATED', message: `${entry.id}: ${deprecated.message}${instead}` })
  }
  return tool
}

/** Whether a digest is one of an entry: of its whole definition, or of the parts that a call depends on. */
function hasDigest(entry: CatalogEntry, digest: string | undefined): boolean {
  return digest === undefined || digest === entry.digest || digest === entry.callDigest
}

/**
 * The error that every caller gets for a definition that the catalog does not have: TOOL_NOT_FOUND for an unknown tool,
 * CATALOG_STALE for another definition. Undefined when the catalog has it, and when its backend has an error of its own,
 * with which a call fails.
 */
export async function missingTool(
  { catalog, sources }: Pick<Run['ports'], 'catalog' | 'sources'>,
  id: string,
  digest: string | undefined,
): Promise<ToolError | undefined> {
  const refused = missingNow(catalog, id, digest)
  const pending = refused === undefined ? undefined : sources.pending(id)
  if (pending === undefined) return refused === undefined || sources.refusal(id) !== undefined ? undefined : refused
  await pending
  return sources.refusal(id) === undefined ? missingNow(catalog, id, digest) : undefined
}

function missingNow(catalog: Catalog, id: string, digest: string | undefined): ToolError | undefined {
  try {
    const entry = catalog.find(id)
    if (hasDigest(entry, digest)) return undefined
    const message = `The definition of ${entry.id} is not the one that the call was admitted for.`
    return new ToolError('CATALOG_STALE', message, { effect: 'none', details: { actual: entry.callDigest } })
  } catch (error) {
    if (ToolError.is(error) && isMissing(error)) return error
    throw error
  }
}

function isMissing(error: unknown): boolean {
  return ToolError.is(error) && error.code === 'TOOL_NOT_FOUND'
}

/** Finds an entry among those that are visible, whether or not the catalog itself filters by visibility. */
export function findFor(catalog: Catalog, id: string, onlooker: Viewer): CatalogEntry {
  const entry = catalog.find(id, onlooker)
  if (onlooker.finds(entry)) return entry
  throw new ToolError('TOOL_NOT_FOUND', `There is no tool ${quote(id)}; search the catalog`, {
    details: { nearest: [] },
  })
}

/** Whether the caller may know of a tool that is not in the catalog. */
function mayKnow({ ports, request }: Run, tool: string): boolean {
  return ports.exists(request.identity, namedBy(tool))
}

/** The parts of a text that may not be a valid id. */
export function namedBy(id: string): NamedTool {
  const [namespace = '', name = '', version = ''] = String(id).split(':', 3)
  return { namespace, name, version }
}

/** The reason for a missing tool, if there is one: it is quarantined, or its backend is unavailable. */
function explained(run: Run, error: unknown): unknown {
  const { tool } = run.request
  return (isMissing(error) && mayKnow(run, tool) ? run.ports.sources.refusal(tool) : undefined) ?? error
}

/** Finds an entry among the visible ones; `mayKnow` decides whether the caller may see why a tool is missing. */
export function findShown(
  catalog: Catalog,
  id: string,
  isVisible: (entry: CatalogEntry) => boolean,
  sources: Sources,
  mayKnow: boolean,
): CatalogEntry {
  try {
    return findFor(catalog, id, { finds: isVisible, sees: isVisible })
  } catch (error) {
    throw (isMissing(error) && mayKnow ? sources.refusal(id) : undefined) ?? error
  }
}

/** A tool version with its compiled validators and the parts that all its results share. */
export interface PreparedTool {
  readonly entry: CatalogEntry
  readonly input: Validator | StandardSchema
  readonly output: Validator | StandardSchema | undefined
  /** Looks up the outcome of an earlier call. */
  readonly lookup: LookupFunction | undefined
  readonly argsCopy: { readonly limits: JsonLimits }
  /** `dropped` is reset before each use. A copy is synchronous, so concurrent calls cannot interleave. */
  readonly resultCopy: { readonly limits: JsonLimits; readonly convert: true; readonly dropped: { count: number } }
  readonly resultTool: ResultTool
}

/** The answer of a lookup: the output of the earlier call, that there was no call, or undefined when it does not know. */
export type LookupAnswer = { readonly found: true; readonly output: unknown } | { readonly found: false } | undefined

/** Looks up the effect of an earlier call by its key. Must not change anything, and must stop on `context.signal`. */
export type LookupFunction = (key: string, context: ToolContext) => LookupAnswer | Promise<LookupAnswer>

/** Prepares each tool version at its first call and discards it with the version. */
export interface PreparedTools {
  of(entry: CatalogEntry): PreparedTool
  /** Sets the definition of a version. Its Standard Schemas (zod, valibot …) replace the JSON Schemas. */
  define(entry: CatalogEntry, parts: LiveParts): void
  forget(id: string): void
}

/** The parts of a tool that exist only in this process, except its function. */
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

/** A tool may set lower limits than the executor, not higher ones. */
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
