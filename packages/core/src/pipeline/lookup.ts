import { ToolError } from '@gantry/contract'
import type { Catalog, CatalogEntry } from '../catalogs/catalog.ts'
import type { PreparedTool } from './prepare.ts'
import type { Run } from './run.ts'

/** Finds the tool version that the id means, and refuses a caller who saw another one. */
export function lookup(run: Run): PreparedTool {
  const { catalog, prepared } = run.ports
  const entry = find(run, catalog)
  const tool = prepared.of(entry)
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

/** Near names help only as far as the caller may see them; a hidden tool leaves no trace in the answer. */
function find(run: Run, catalog: Catalog): CatalogEntry {
  try {
    return catalog.find(run.request.tool)
  } catch (error) {
    if (!ToolError.is(error) || error.details?.nearest === undefined) throw error
    const { nearest } = error.details
    const shown = nearest.filter((id) => isShown(run, catalog, id))
    if (shown.length === nearest.length) throw error
    throw new ToolError(error.code, `There is no tool ${run.request.tool}.`, { details: { nearest: shown } })
  }
}

function isShown(run: Run, catalog: Catalog, id: string): boolean {
  try {
    return run.ports.visible(run.request.identity, catalog.find(id))
  } catch {
    return false
  }
}
