import { parseRegex } from '../patterns/parse.ts'

const label = /^[A-Za-z0-9](?:[-A-Za-z0-9]*[A-Za-z0-9])?$/
const atom = /^[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*$/
const wideAtom =
  /^[A-Za-z0-9!#$%&'*+/=?^_`{|}~\u0080-\u{10ffff}-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~\u0080-\u{10ffff}-]+)*$/u
const quoted = /^"(?:[^"\\]|\\.)*"$/

function isIpv4(text: string): boolean {
  const parts = text.split('.')
  return parts.length === 4 && parts.every((part) => /^(?:0|[1-9]\d{0,2})$/.test(part) && Number(part) < 256)
}

function isIpv6(text: string): boolean {
  if (text.length > 45) return false
  const halves = text.split('::')
  if (halves.length > 2) return false
  let groups = 0
  for (const [index, half] of halves.entries()) {
    if (half === '') continue
    const parts = half.split(':')
    for (const [location, part] of parts.entries()) {
      const last = index === halves.length - 1 && location === parts.length - 1
      if (/^[0-9a-fA-F]{1,4}$/.test(part)) groups += 1
      else if (last && isIpv4(part)) groups += 2
      else return false
    }
  }
  return halves.length === 2 ? groups <= 7 : groups === 8
}

/** RFC 1123 labels; a label with `xn--` must be a valid A-label. */
function isHostname(text: string): boolean {
  if (text.length === 0 || text.length > 253) return false
  return text.split('.').every((part) => {
    if (part.length > 63 || !label.test(part)) return false
    if (/^xn--/i.test(part)) return isALabel(part)
    return part.slice(2, 4) !== '--'
  })
}

/** Whether an A-label decodes to a U-label that is allowed and encodes to the same again. */
function isALabel(part: string): boolean {
  const decoded = decodePunycode(part.slice(4).toLowerCase())
  return decoded !== undefined && isULabel(decoded) && encoded(decoded) === part.toLowerCase()
}

/** The A-label of a U-label by the platform's own IDNA, which also knows the rules for right-to-left text. */
function encoded(part: string): string | undefined {
  return URL.parse(`http://${part}`)?.hostname
}

/** RFC 3492, for one label. */
function decodePunycode(text: string): string | undefined {
  const dash = text.lastIndexOf('-')
  const output = [...text.slice(0, Math.max(0, dash))].map((character) => character.charCodeAt(0))
  let [code, bias, index] = [128, 72, 0]
  for (let at = dash < 0 ? 0 : dash + 1; at < text.length; ) {
    const start = index
    for (let weight = 1, k = 36; ; k += 36) {
      const digit = Number.parseInt(text.charAt(at++), 36)
      if (Number.isNaN(digit)) return undefined
      index += (digit < 10 ? digit + 26 : digit - 10) * weight
      const threshold = k <= bias ? 1 : k >= bias + 26 ? 26 : k - bias
      if ((digit < 10 ? digit + 26 : digit - 10) < threshold) break
      weight *= 36 - threshold
    }
    const count = output.length + 1
    let delta = start === 0 ? Math.floor((index - start) / 700) : Math.floor((index - start) / 2)
    delta += Math.floor(delta / count)
    let steps = 0
    for (; delta > 455; steps += 36) delta = Math.floor(delta / 35)
    bias = steps + Math.floor((36 * delta) / (delta + 38))
    code += Math.floor(index / count)
    if (code > 0x10ffff) return undefined
    index %= count
    output.splice(index++, 0, code)
  }
  return String.fromCodePoint(...output)
}

const disallowed = /[\u302e\u302f\u0640\u07fa\u3031-\u3035\u303b]/u

/** The rules of RFC 5892 that need no tables but Unicode's own properties. */
function isULabel(part: string): boolean {
  if (part.startsWith('-') || part.endsWith('-') || part.slice(2, 4) === '--' || /^\p{M}/u.test(part)) return false
  if (
    disallowed.test(part) ||
    !/^[-\p{L}\p{M}\p{N}\u00b7\u0375\u05f3\u05f4\u30fb\u06fd\u06fe\u0f0b\u3007\p{Join_Control}]+$/u.test(part)
  )
    return false
  if (/[\u0660-\u0669]/u.test(part) && /[\u06f0-\u06f9]/u.test(part)) return false
  if (part.includes('\u00b7') && /(?<!l)\u00b7|\u00b7(?!l)/u.test(part)) return false
  if (/\u0375(?!\p{Script=Greek})/u.test(part) || /(?<!\p{Script=Hebrew})[\u05f3\u05f4]/u.test(part)) return false
  if (
    part.includes('\u30fb') &&
    !/[\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Han}]/u.test(part.replaceAll('\u30fb', ''))
  )
    return false
  return !/(?<![\u094d\u09cd\u0a4d\u0acd\u0b4d\u0bcd\u0c4d\u0ccd\u0d4d\u0dca])\u200d/u.test(part)
}

/** Labels of any script, each within 63 octets once encoded. */
function isIdnHostname(text: string): boolean {
  if (text.length === 0 || text.length > 253) return false
  return text.split(/[.\u3002\uff0e\uff61]/u).every((part) => {
    if (/^[\0-\x7f]*$/.test(part)) return isHostname(part)
    const ascii = encoded(part)
    return ascii !== undefined && ascii.length <= 63 && isULabel(part)
  })
}

const email =
  (local: RegExp, host: (text: string) => boolean) =>
  (text: string): boolean => {
    const at = text.lastIndexOf('@')
    const name = text.slice(0, at)
    if (at < 1 || name.length > 64 || !(local.test(name) || quoted.test(name))) return false
    const domain = text.slice(at + 1)
    if (!domain.startsWith('[')) return host(domain)
    const literal = domain.endsWith(']') ? domain.slice(1, -1) : ''
    return literal.startsWith('IPv6:') ? isIpv6(literal.slice(5)) : isIpv4(literal)
  }

const isEmail: (text: string) => boolean = email(atom, isHostname)
const isIdnEmail: (text: string) => boolean = email(wideAtom, isIdnHostname)

const scheme = /^[A-Za-z][-A-Za-z0-9+.]*$/
const ascii = {
  path: /^(?:[-A-Za-z0-9._~!$&'()*+,;=:@/]|%[0-9a-fA-F]{2})*$/,
  query: /^(?:[-A-Za-z0-9._~!$&'()*+,;=:@/?]|%[0-9a-fA-F]{2})*$/,
  name: /^(?:[-A-Za-z0-9._~!$&'()*+,;=]|%[0-9a-fA-F]{2})*$/,
}
const wide = {
  path: /^(?:[-A-Za-z0-9._~!$&'()*+,;=:@/\u00a0-\ud7ff\uf900-\u{10ffff}]|%[0-9a-fA-F]{2})*$/u,
  query: /^(?:[-A-Za-z0-9._~!$&'()*+,;=:@/?\u00a0-\ud7ff\ue000-\u{10ffff}]|%[0-9a-fA-F]{2})*$/u,
  name: /^(?:[-A-Za-z0-9._~!$&'()*+,;=\u00a0-\ud7ff\uf900-\u{10ffff}]|%[0-9a-fA-F]{2})*$/u,
}

type Characters = typeof ascii

/** RFC 3986 (or 3987, with wide characters): `scheme:hierarchy?query#fragment`, the scheme optional in a reference. */
function isReference(text: string, characters: Characters, absolute: boolean): boolean {
  const [beforeHash, fragment] = cut(text, '#')
  const [beforeQuery, query] = cut(beforeHash, '?')
  if (!characters.query.test(query ?? '') || !characters.query.test(fragment ?? '')) return false
  const colon = beforeQuery.indexOf(':')
  const slash = beforeQuery.indexOf('/')
  const hasScheme = colon > 0 && (slash < 0 || colon < slash)
  if (hasScheme ? !scheme.test(beforeQuery.slice(0, colon)) : absolute || colon === 0) return false
  const hierarchy = hasScheme ? beforeQuery.slice(colon + 1) : beforeQuery
  if (!hierarchy.startsWith('//')) return characters.path.test(hierarchy)
  const end = hierarchy.indexOf('/', 2)
  const authority = hierarchy.slice(2, end < 0 ? undefined : end)
  return isAuthority(authority, characters) && characters.path.test(end < 0 ? '' : hierarchy.slice(end))
}

/** The text before a mark and after it. */
function cut(text: string, mark: string): readonly [string, string | undefined] {
  const at = text.indexOf(mark)
  return at < 0 ? [text, undefined] : [text.slice(0, at), text.slice(at + 1)]
}

function isAuthority(text: string, characters: Characters): boolean {
  const at = text.lastIndexOf('@')
  if (at >= 0 && !characters.name.test(text.slice(0, at).replaceAll(':', ''))) return false
  const host = text.slice(at + 1)
  const literal = /^\[([^\]]*)\](?::\d*)?$/.exec(host)
  if (literal !== null)
    return isIpv6(literal[1] ?? '') || /^[vV][0-9a-fA-F]+\.[-A-Za-z0-9._~!$&'()*+,;=:]+$/.test(literal[1] ?? '')
  const [name, port] = cut(host, ':')
  return (isIpv4(name) || characters.name.test(name)) && /^\d*$/.test(port ?? '')
}

const isUri = (text: string): boolean => isReference(text, ascii, true)
const isUriReference = (text: string): boolean => isReference(text, ascii, false)
const isIri = (text: string): boolean => isReference(text, wide, true)
const isIriReference = (text: string): boolean => isReference(text, wide, false)

const expression = /^[+#./;?&=,!@|]?([^+#/;?&=!@|].*)$/
const variable = /^(?:\w|%[0-9a-fA-F]{2})+(?:\.(?:\w|%[0-9a-fA-F]{2})+)*(?::[1-9]\d{0,3}|\*)?$/
const literals = /^(?:[^\0-\x20"%<>\\^`{|}\x7f]|%[0-9a-fA-F]{2})*$/u

/** RFC 6570: literals and expressions in braces. */
function isUriTemplate(text: string): boolean {
  return text.split('{').every((part, index) => {
    if (index === 0) return literals.test(part)
    const [inside, after] = cut(part, '}')
    const names = expression.exec(inside)?.[1]?.split(',') ?? ['']
    return after !== undefined && names.every((name) => variable.test(name)) && literals.test(after)
  })
}

const fullDate = /^(\d{4})-(\d\d)-(\d\d)$/
const fullTime = /^(\d\d):(\d\d):(\d\d)(?:\.\d+)?(?:[zZ]|([+-])(\d\d):(\d\d))$/
const datePart = /^P(?:\d+W|(?=\d|T\d)(?:\d+Y)?(?:\d+M)?(?:\d+D)?(?:T(?=\d)(?:\d+H)?(?:\d+M)?(?:\d+S)?)?)$/

/** RFC 3339 `full-date`, with the length of the month. */
function isDate(text: string): boolean {
  const match = fullDate.exec(text)
  if (match === null) return false
  const [year, month, day] = [Number(match[1]), Number(match[2]), Number(match[3])]
  return month >= 1 && month <= 12 && day >= 1 && day <= daysIn(year, month)
}

function daysIn(year: number, month: number): number {
  if (month === 2) return year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0) ? 29 : 28
  return month === 4 || month === 6 || month === 9 || month === 11 ? 30 : 31
}

/** RFC 3339 `full-time`; second 60 only where UTC has a leap second. */
function isTime(text: string): boolean {
  const match = fullTime.exec(text)
  if (match === null) return false
  const [hour, minute, second] = [Number(match[1]), Number(match[2]), Number(match[3])]
  const [offsetHour, offsetMinute] = [Number(match[5] ?? 0), Number(match[6] ?? 0)]
  if (hour > 23 || minute > 59 || second > 60 || offsetHour > 23 || offsetMinute > 59) return false
  if (second < 60) return true
  const offset = (offsetHour * 60 + offsetMinute) * (match[4] === '-' ? -1 : 1)
  return (hour * 60 + minute - offset + 2880) % 1440 === 1439
}

function isDateTime(text: string): boolean {
  return /^[tT]$/.test(text.charAt(10)) && isDate(text.slice(0, 10)) && isTime(text.slice(11))
}

/** ISO 8601 duration as RFC 3339 writes it: units in order, none left out between two. */
function isDuration(text: string): boolean {
  if (!datePart.test(text)) return false
  const [date = '', time = ''] = text.split('T')
  return !/Y\d+D/.test(date) && !/H\d+S/.test(time)
}

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
