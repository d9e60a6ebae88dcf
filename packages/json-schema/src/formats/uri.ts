import { isIpv4, isIpv6 } from './network.ts'

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

export const isUri = (text: string): boolean => isReference(text, ascii, true)
export const isUriReference = (text: string): boolean => isReference(text, ascii, false)
export const isIri = (text: string): boolean => isReference(text, wide, true)
export const isIriReference = (text: string): boolean => isReference(text, wide, false)

const expression = /^[+#./;?&=,!@|]?([^+#/;?&=!@|].*)$/
const variable = /^(?:\w|%[0-9a-fA-F]{2})+(?:\.(?:\w|%[0-9a-fA-F]{2})+)*(?::[1-9]\d{0,3}|\*)?$/
const literals = /^(?:[^\0-\x20"%<>\\^`{|}\x7f]|%[0-9a-fA-F]{2})*$/u

/** RFC 6570: literals and expressions in braces. */
export function isUriTemplate(text: string): boolean {
  return text.split('{').every((part, index) => {
    if (index === 0) return literals.test(part)
    const [inside, after] = cut(part, '}')
    const names = expression.exec(inside)?.[1]?.split(',') ?? ['']
    return after !== undefined && names.every((name) => variable.test(name)) && literals.test(after)
  })
}
