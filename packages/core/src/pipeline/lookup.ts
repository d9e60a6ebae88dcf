import { ToolError } from '@gantry/contract'
import type { Catalog, CatalogEntry, Viewer } from '../catalogs/catalog.ts'
import { quote } from '../ids/quote.ts'
import type { NamedTool } from '../ids/tool-pattern.ts'
import type { Sources } from './ports.ts'
import type { PreparedTool } from './prepare.ts'
import type { Run } from './run.ts'

/**
 * Finds the tool version that the id means, and refuses a caller who saw another one. A tool that is not there for the
 * caller is answered like a name that nobody has. Waits only when the tool may come from a backend that was not asked
 * for its tools yet.
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

/** A run that reaches no backend does not ask one for its tools either. */
function pendingOf({ request, ports: { sources } }: Run, tool: string): Promise<void> | undefined {
  if (request.recorded === undefined) return sources.pending(tool)
  const unasked = sources.unasked(tool)
  if (unasked === undefined) return undefined
  const message = `The tools of ${unasked} were not asked for yet, and a dry run does not; list the tools first.`
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
    throw new ToolError('CATALOG_STALE', `${entry.id} is not what the caller saw; describe it again.`, {
      details: { expected: schemaDigest?.slice(0, 80) ?? '', actual: entry.digest },
    })
  }
  const { deprecated } = entry.tool
  if (deprecated !== undefined) {
    const instead = deprecated.replacement === undefined ? '' : ` Use ${deprecated.replacement}.`
    run.warn({ code: 'DEPRECATED', message: `${entry.id}: ${deprecated.message}${instead}` })
  }
  return tool
}

/** Whether an entry is the definition that a digest is of: the whole one, or what a call depends on. */
function hasDigest(entry: CatalogEntry, digest: string | undefined): boolean {
  return digest === undefined || digest === entry.digest || digest === entry.callDigest
}

/**
 * What keeps every caller from this tool in this definition: it is in the catalog in neither, or in another definition.
 * Undefined when it is there, and when its backend gives a reason of its own, with which a call fails.
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
    const message = `${entry.id} is there in another definition than the call was admitted for.`
    return new ToolError('CATALOG_STALE', message, { effect: 'none', details: { actual: entry.callDigest } })
  } catch (error) {
    if (ToolError.is(error) && isMissing(error)) return error
    throw error
  }
}

function isMissing(error: unknown): boolean {
  return ToolError.is(error) && error.code === 'TOOL_NOT_FOUND'
}

/** Finds an entry for somebody to whom not all of them are there, whether or not the catalog itself knows of that. */
export function findFor(catalog: Catalog, id: string, onlooker: Viewer): CatalogEntry {
  const entry = catalog.find(id, onlooker)
  if (onlooker.finds(entry)) return entry
  throw new ToolError('TOOL_NOT_FOUND', `There is no tool ${quote(id)}; search the catalog`, {
    details: { nearest: [] },
  })
}

/** Whether the caller may be told of what becomes of a tool that is not, or not yet, in the catalog. */
function mayKnow({ ports, request }: Run, tool: string): boolean {
  return ports.exists(request.identity, namedBy(tool))
}

/** The parts of an id as it was asked for, which need not be one. */
export function namedBy(id: string): NamedTool {
  const [namespace = '', name = '', version = ''] = String(id).split(':', 3)
  return { namespace, name, version }
}

/** The reason behind a tool that is not there, when there is one: it is quarantined, or its backend is down. */
function explained(run: Run, error: unknown): unknown {
  const { tool } = run.request
  return (isMissing(error) && mayKnow(run, tool) ? run.ports.sources.refusal(tool) : undefined) ?? error
}

/** Finds an entry of those that somebody is shown; `mayKnow` says whether he may hear why a tool is not there. */
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
