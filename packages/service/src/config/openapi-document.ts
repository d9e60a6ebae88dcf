import { ToolError } from '@gantry/contract'
import { isToolError } from './problem.ts'

/** Bytes of a document. */
export const mostDocumentBytes = 128 * 1_048_576

/**
 * An OpenAPI document from its text: JSON when it begins with a brace, else YAML; `source` names it in messages.
 * Read as JSON.parse reads it, because documents hold numbers such as the largest int64, which our strict parser refuses;
 * `importOpenapi` copies and bounds what comes out.
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
