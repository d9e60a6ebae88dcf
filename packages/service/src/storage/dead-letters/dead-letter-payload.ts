import type { Json } from '@gantry/contract'
import { createRedactor, isSecretKey, type RedactionMark } from '@gantry/core/internal/json/redact'

/** What was asked for, as a letter shows it: marks stand for what its keys say is secret, and for passwords in URLs. */
export function shownPayload(text: string, mark: RedactionMark): Json {
  const redactor = createRedactor({ mark })
  try {
    return redactor.value(JSON.parse(text))
  } catch {
    // What could not be read as JSON, because it is cut, say, is shown as the text that it is.
    return redactor.value(withoutSecretMembers(text, mark))
  }
}

// A key does not begin behind a backslash; without that each quote of an escaped text would be tried as the start of one.
const member = /(?<!\\)"((?:[^"\\]|\\.){1,200})"\s*:\s*/g
const scalar = /^(?:"(?:[^"\\]|\\.)*(?:"|\\?$)|[^\s,}\]{["]+)/

/** The end of an object or a list may be missing, so that all that follows the key of one is left out. */
function withoutSecretMembers(text: string, mark: RedactionMark): string {
  let shown = ''
  let done = 0
  for (const found of text.matchAll(member)) {
    const at = found.index + found[0].length
    if (found.index < done || !isSecretKey(found[1] ?? '')) continue
    const value = scalar.exec(text.slice(at))
    const end = value === null ? text.length : at + value[0].length
    shown += `${text.slice(done, at)}"${mark(text.slice(at, end), 'shape')}"`
    done = end
  }
  return shown + text.slice(done)
}
