import type { Issue, JsonObject } from '@gantry/contract'
import { createEgress, type EgressAllow } from '@gantry/core'
import { checkCallback } from './callback-target.ts'
import { isToolError } from './problem.ts'

/**
 * What is wrong with where callbacks go, besides what the schema says: origins that are none, and callbacks of tenants that
 * would be refused with every call. What is known to be wrong already is left alone.
 */
export async function callbackIssues(document: JsonObject, known: readonly Issue[]): Promise<Issue[]> {
  const { callbackOrigins: origins, callbacks = {} } = (document.service ?? {}) as Settings
  const isWrong = (at: string): boolean =>
    known.some(({ path }) => `${path}/`.startsWith(`${at}/`) || path === '/egress')
  if (['/service/callbackOrigins', '/service/callbacks', '/egress/allow'].some(isWrong)) return []
  if (origins !== undefined) {
    const issues = ruleIssues(origins)
    if (issues.length > 0) return issues
  }
  const { allow } = (document.egress ?? {}) as { readonly allow?: EgressAllow }
  const egress = createEgress(allow === undefined ? {} : { allow })
  const found: Issue[] = []
  for (const [tenant, url] of Object.entries(callbacks)) {
    const path = `/service/callbacks/${tenant.replaceAll('~', '~0').replaceAll('/', '~1')}`
    await checkCallback(url, origins, egress).catch((error: unknown) => {
      if (!isToolError(error)) throw error
      found.push({ path, message: error.message })
    })
  }
  await egress.close()
  return found
}

interface Settings {
  readonly callbackOrigins?: EgressAllow
  readonly callbacks?: { readonly [tenant: string]: string }
}

function ruleIssues(allow: EgressAllow): Issue[] {
  try {
    createEgress({ allow })
    return []
  } catch (error) {
    if (!isToolError(error)) throw error
    const issues = error.details?.issues ?? [{ path: '', message: error.message }]
    return issues.map((issue) => ({
      ...issue,
      path: `/service/callbackOrigins${issue.path.replace(/^\/egress\/allow/, '')}`,
    }))
  }
}
