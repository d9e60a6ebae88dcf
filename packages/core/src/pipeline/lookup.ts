import { ToolError } from '@gantry/contract'
import type { PreparedTool } from './prepare.ts'
import type { Run } from './run.ts'

/** Finds the tool version that the id means, and refuses a caller who saw another one. */
export function lookup(run: Run): PreparedTool {
  const { catalog, prepared } = run.ports
  const entry = catalog.find(run.request.tool)
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
