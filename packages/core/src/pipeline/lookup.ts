import { ToolError } from '@gantry/contract'
import type { Catalog, CatalogEntry } from '../catalogs/catalog.ts'
import type { PreparedTool } from './prepare.ts'
import type { Run } from './run.ts'

/** Finds the tool version that the id means, and refuses a caller who saw another one. */
export function lookup(run: Run): PreparedTool {
  const { catalog, prepared, visible } = run.ports
  const entry = findShown(catalog, run.request.tool, (near) => visible(run.request.identity, near))
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
export function findShown(catalog: Catalog, id: string, isVisible: (entry: CatalogEntry) => boolean): CatalogEntry {
  const isShown = (near: string): boolean => {
    try {
      return isVisible(catalog.find(near))
    } catch {
      return false
    }
  }
  try {
    return catalog.find(id)
  } catch (error) {
    if (!ToolError.is(error) || error.details?.nearest === undefined) throw error
    const { nearest } = error.details
    const shown = nearest.filter(isShown)
    if (shown.length === nearest.length) throw error
    throw new ToolError(error.code, `There is no tool ${id}.`, { details: { nearest: shown } })
  }
}
