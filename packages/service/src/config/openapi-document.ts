import { ToolError } from '@gantry/contract'
import { isToolError } from './problem.ts'

/** Size limit of a document. */
export const mostDocumentBytes = 128 * 1_048_576

/**
 * Parses an OpenAPI document: JSON when it begins with a brace, else YAML; `source` names it in messages.
 * Uses JSON.parse, because documents contain numbers such as the largest int64, which the strict parser refuses;
 * `importOpenapi` copies the result within limits.
 */
export async function parseOpenapi(source: string, text: string): Promise<unknown> {
  const plain = text.replace(/^\ufeff/, '').trimStart()
  if (plain.startsWith('{')) {
    try {
      return JSON.parse(plain)
    } catch (error) {
      throw new ToolError('PAYLOAD_INVALID', `The document ${source} is not valid JSON.`, { cause: error })
    }
  }
  const { parseYaml } = await import('./read-data.ts')
  try {
    return parseYaml(source, plain)
  } catch (error) {
    if (!isToolError(error)) throw error
    const issues = error.details?.issues ?? []
    throw new ToolError('PAYLOAD_INVALID', `The document ${source} is not valid YAML.`, { details: { issues } })
  }
}
