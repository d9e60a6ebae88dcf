/** Ceilings for one JSON value. */
export interface JsonLimits {
  /** Bytes of its JSON text in UTF-8, near enough: punctuation is counted as one byte a member. */
  readonly bytes: number
  readonly depth: number
  /** Members and elements in all. */
  readonly nodes: number
}

export const defaultJsonLimits: JsonLimits = { bytes: 1_048_576, depth: 64, nodes: 100_000 }

/** Why a value is not acceptable JSON. */
export type JsonFault = 'not-json' | 'too-deep' | 'too-large' | 'forbidden-key'

/** Thrown inside `json/` only; callers turn it into the ToolError of their stage. */
export class JsonError extends Error {
  override readonly name = 'JsonError'
  readonly fault: JsonFault
  /** JSON Pointer to the place. */
  readonly path: string

  constructor(fault: JsonFault, path: string, message: string, options?: ErrorOptions) {
    super(message, options)
    this.fault = fault
    this.path = path
  }
}

/** Length of a string in UTF-8. */
export function utf8Length(text: string): number {
  if (text.length > 64) return Buffer.byteLength(text)
  let bytes = text.length
  for (let index = 0; index < text.length; index++) {
    const unit = text.charCodeAt(index)
    if (unit > 0x7f) bytes += unit > 0x7ff && (unit < 0xd800 || unit > 0xdfff) ? 2 : 1
  }
  return bytes
}
