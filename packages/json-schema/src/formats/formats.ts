import { parseRegex } from '../patterns/parse.ts'
import { isDate, isDateTime, isDuration, isTime } from './dates.ts'
import { isEmail, isHostname, isIdnEmail, isIdnHostname, isIpv4, isIpv6 } from './network.ts'
import { isIri, isIriReference, isUri, isUriReference, isUriTemplate } from './uri.ts'

const uuid = /^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$/
const pointer = /^(?:\/(?:[^~/]|~[01])*)*$/u
const relativePointer = /^(?:0|[1-9]\d*)(?:#$|(?=\/|$))/

/** Whether a text is a regular expression in the `u` dialect; parsing is linear, nothing is matched. */
function isRegex(text: string): boolean {
  try {
    parseRegex(new RegExp(text, 'u').source, true)
    return true
  } catch {
    return false
  }
}

function isRelativePointer(text: string): boolean {
  const head = relativePointer.exec(text)?.[0]
  return head !== undefined && (head.endsWith('#') || pointer.test(text.slice(head.length)))
}

/** Checks by name of format; each is linear in the length of the text. */
export const formats: ReadonlyMap<string, (text: string) => boolean> = new Map([
  ['date-time', isDateTime],
  ['date', isDate],
  ['time', isTime],
  ['duration', isDuration],
  ['email', isEmail],
  ['idn-email', isIdnEmail],
  ['hostname', isHostname],
  ['idn-hostname', isIdnHostname],
  ['ipv4', isIpv4],
  ['ipv6', isIpv6],
  ['uri', isUri],
  ['uri-reference', isUriReference],
  ['iri', isIri],
  ['iri-reference', isIriReference],
  ['uri-template', isUriTemplate],
  ['uuid', (text) => uuid.test(text)],
  ['json-pointer', (text) => pointer.test(text)],
  ['relative-json-pointer', isRelativePointer],
  ['regex', isRegex],
])
