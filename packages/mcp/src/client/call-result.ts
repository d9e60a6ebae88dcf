import type { StandardSchemaV1 } from '@modelcontextprotocol/client'
import type { Sdk } from './sdk.ts'

/** What a result without content must not have, because it is then the answer to another question. */
const foreignKeys = ['task', 'inputRequests', 'requestState']

/**
 * The check of a call's result from a server before 2026-07-28. It takes and refuses what the SDK's own does, which the
 * SDK puts together anew for each call by having it fail once, and that takes longer than all else in its call.
 */
export function callResultSchema({ specTypeSchemas }: Pick<Sdk, 'specTypeSchemas'>): StandardSchemaV1<unknown, object> {
  const { CallToolResult, RequestMeta } = specTypeSchemas
  const validate = (value: unknown): StandardSchemaV1.Result<object> => {
    const fault = isRecord(value) ? faultOf(value) : undefined
    if (fault !== undefined) return { issues: [{ message: fault }] }
    const result = CallToolResult['~standard'].validate(value)
    if (result.issues !== undefined || !isRecord(value) || value._meta === undefined) return result
    const meta = RequestMeta['~standard'].validate(value._meta)
    return meta.issues === undefined ? { value: { ...result.value, _meta: meta.value } } : meta
  }
  return { '~standard': { version: 1, vendor: 'gantry', validate } }
}

/** The newer revision, whose schema is the one that can be had, allows more here. */
function faultOf(value: Readonly<Record<string, unknown>>): string | undefined {
  const { content, structuredContent } = value
  if (structuredContent !== undefined && !isRecord(structuredContent)) return 'structuredContent must be an object'
  const foreign = content === undefined ? foreignKeys.find((key) => key in value) : undefined
  return foreign === undefined ? undefined : `content is missing beside ${foreign}`
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
