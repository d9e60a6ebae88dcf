import { ToolError } from '@gantry/contract'
import type { Catalog, CatalogEntry } from '../catalogs/catalog.ts'
import type { PreparedTool } from './prepare.ts'
import type { Run } from './run.ts'
import type { Sources } from './sources.ts'

/**
 * Finds the tool version that the id means, and refuses a caller who saw another one. Waits only when the tool may
 * come from a backend that was not asked for its tools yet.
 */
export function lookup(run: Run): PreparedTool | Promise<PreparedTool> {
  const { tool } = run.request
  try {
    return take(run, run.ports.catalog.find(tool))
  } catch (error) {
    const pending = isMissing(error) ? run.ports.sources.pending(tool) : undefined
    if (pending === undefined) throw explained(run, error)
    return lookupAgain(run, pending)
  }
}

async function lookupAgain(run: Run, pending: Promise<void>): Promise<PreparedTool> {
  await run.within(pending)
  try {
    return take(run, run.ports.catalog.find(run.request.tool))
  } catch (error) {
    throw explained(run, error)
  }
}

function take(run: Run, entry: CatalogEntry): PreparedTool {
  const tool = run.ports.prepared.of(entry)
  run.tool = tool
  const { schemaDigest } = run.request
  if (schemaDigest !== undefined && schemaDigest !== entry.digest) {
    throw new ToolError('CATALOG_STALE', `${entry.id} is not what the caller saw; describe it again.`, {
      details: { expected: schemaDigest.slice(0, 80), actual: entry.digest },
    })
  }
  const { deprecated } = entry.tool
  if (deprecated !== undefined) {
    const instead = deprecated.replacement === undefined ? '' : ` Use ${deprecated.replacement}.`
    run.warn({ code: 'DEPRECATED', message: `${entry.id}: ${deprecated.message}${instead}` })
  }
  return tool
}

function isMissing(error: unknown): boolean {
  return ToolError.is(error) && error.code === 'TOOL_NOT_FOUND'
}

/** The reason behind a tool that is not there, when there is one: it is quarantined, or its backend is down. */
function explained(run: Run, error: unknown): unknown {
  const { catalog, visible, sources } = run.ports
  const { tool, identity } = run.request
  const refusal = isMissing(error) ? sources.refusal(tool) : undefined
  return refusal ?? withoutHidden(error, catalog, tool, (near) => visible(identity, near))
}

/** Finds an entry for a caller who may not see all of them. */
export function findShown(
  catalog: Catalog,
  id: string,
  isVisible: (entry: CatalogEntry) => boolean,
  sources: Sources,
): CatalogEntry {
  try {
    return catalog.find(id)
  } catch (error) {
    throw (isMissing(error) ? sources.refusal(id) : undefined) ?? withoutHidden(error, catalog, id, isVisible)
  }
}

/** Near names help only as far as the caller may see them; a hidden tool leaves no trace in the answer. */
function withoutHidden(
  error: unknown,
  catalog: Catalog,
  id: string,
  isVisible: (entry: CatalogEntry) => boolean,
): unknown {
  if (!ToolError.is(error) || error.details?.nearest === undefined) return error
  const { nearest } = error.details
  const shown = nearest.filter((near) => {
    try {
      return isVisible(catalog.find(near))
    } catch {
      return false
    }
  })
  if (shown.length === nearest.length) return error
  return new ToolError(error.code, `There is no tool ${id}.`, { details: { nearest: shown } })
}
