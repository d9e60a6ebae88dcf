import type { Json } from '@gantry/contract'
import { createRedactor, isSecretKey, redacted } from '@gantry/core'

const redactor = createRedactor()

/** What was asked for, as a letter shows it: without what its keys say is secret, as in approvals. */
export function shownPayload(text: string): Json {
  try {
    return redactor.value(JSON.parse(text))
  } catch {
    // What could not be read as JSON, because it is cut, say, is shown as the text that it is.
    return redactor.value(withoutSecretMembers(text))
  }
}

const member = /"((?:[^"\\]|\\.){1,200})"\s*:\s*/g
const scalar = /^(?:"(?:[^"\\]|\\.)*(?:"|\\?$)|[^\s,}\]{["]+)/

/** The end of an object or a list may be missing, so that all that follows the key of one is left out. */
function withoutSecretMembers(text: string): string {
  let shown = ''
  let done = 0
  for (const found of text.matchAll(member)) {
    const at = found.index + found[0].length
    if (found.index < done || !isSecretKey(found[1] ?? '')) continue
    const value = scalar.exec(text.slice(at))
    shown += `${text.slice(done, at)}"${redacted}"`
    done = value === null ? text.length : at + value[0].length
  }
  return shown + text.slice(done)
}
