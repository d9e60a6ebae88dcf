import type { HttpAuth, JsonObject } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import type { Operation, Report } from './operations.ts'
import { attempt, clip, follow, member, type Part, parts, type Source, Unusable } from './source.ts'

/** The credentials of the operations of a document. */
export interface Security {
  /** The default credentials of the backend. */
  readonly usual: readonly HttpAuth[]
  /** The credentials of one operation; undefined when they are the default. Throws Unusable. */
  of(operation: Operation): readonly HttpAuth[] | undefined
}

/** Reads the security schemes; each becomes references to secrets whose names begin with `name`. */
export function readSecurity(source: Source, name: string, report: Report): Security {
  const root: Part = { value: source.root, path: '' }
  const components = member(root, 'components')
  const schemes = components && member(components, 'securitySchemes')
  const choose = (requirements: Part | undefined): readonly HttpAuth[] =>
    requirements === undefined ? [] : choice(source, schemes, name, requirements, report)
  const general = attempt(() => choose(member(root, 'security')))
  const usual = 'value' in general ? general.value : []
  const usualText = JSON.stringify(usual)
  if ('reason' in general) report.warn('/security', general.reason)
  return {
    usual,
    of({ value, path }) {
      const own = member({ value, path }, 'security')
      if (own === undefined && 'reason' in general) throw new Unusable(general.reason)
      const auth = own === undefined ? usual : choose(own)
      return auth === usual || JSON.stringify(auth) === usualText ? undefined : auth
    },
  }
}

/** The first supported alternative in document order; an empty requirement is always supported. */
function choice(
  source: Source,
  schemes: Part | undefined,
  name: string,
  requirements: Part,
  report: Report,
): readonly HttpAuth[] {
  const alternatives = parts(requirements).map(({ value }) => (isObject(value) ? Object.keys(value) : []))
  if (alternatives.length === 0) return []
  const reasons: string[] = []
  for (const schemeNames of alternatives) {
    const tried = attempt(() => schemeNames.map((scheme) => credential(source, schemes, name, scheme)))
    if ('reason' in tried) {
      reasons.push(tried.reason)
      continue
    }
    if (alternatives.length > 1) warnOfChoice(alternatives, schemeNames, report)
    const sent = withoutDoubles(tried.value, schemeNames, report)
    for (const { secrets } of sent) for (const [secret, what] of secrets) report.secrets.set(secret, what)
    return sent.map(({ auth }) => auth)
  }
  throw new Unusable(reasons[0] ?? 'no security requirement is supported')
}

/** A request has one Authorization header: of several schemes that write it, the first suffices. */
function withoutDoubles(all: readonly Credential[], names: readonly string[], report: Report): readonly Credential[] {
  const writers = all.filter(writesAuthorization)
  if (writers.length < 2) return all
  const written = names.filter((_, index) => writers.some((one) => one === all[index]))
  const words = clip(written.join(' with '), 200)
  report.warn('/components/securitySchemes', `${words} all write the header Authorization; the first of them is sent`)
  return all.filter((one) => one === writers[0] || !writesAuthorization(one))
}

function writesAuthorization({ auth }: Credential): boolean {
  return auth.type === 'header' ? auth.name.toLowerCase() === 'authorization' : /^(?:bearer|basic)$/.test(auth.type)
}

/** Once for all operations that have the same alternatives. */
function warnOfChoice(alternatives: readonly (readonly string[])[], used: readonly string[], report: Report): void {
  const words = (names: readonly string[]) => names.join(' with ') || 'nothing'
  const all = clip(alternatives.map(words).join(', or '), 200)
  report.warn('/components/securitySchemes', `of the security requirements (${all}), ${words(used)} is used`)
}

interface Credential {
  readonly auth: HttpAuth
  readonly secrets: readonly (readonly [name: string, what: string])[]
}

function credential(source: Source, schemes: Part | undefined, name: string, scheme: string): Credential {
  const part = schemes && member(schemes, scheme)
  if (part === undefined) throw new Unusable(`the security scheme ${clip(scheme, 60)} is not in the document`)
  const { value } = follow(source, part)
  const secret = `${name}_${scheme}`.replaceAll(/[^A-Za-z0-9_-]+/g, '_').slice(0, 100)
  const shown = clip(scheme, 60)
  const bearer = (what: string): Credential => ({
    auth: { type: 'bearer', token: `secret:${secret}` },
    secrets: [[secret, `${what} (${shown})`]],
  })
  switch (kindOf(value)) {
    case 'apiKey':
      return apiKey(value, secret, shown)
    case 'http bearer':
      return bearer('a bearer token')
    case 'http basic':
      return {
        auth: { type: 'basic', username: `secret:${secret}_username`, password: `secret:${secret}_password` },
        secrets: [
          [`${secret}_username`, `a user name (${shown})`],
          [`${secret}_password`, `a password (${shown})`],
        ],
      }
    case 'oauth2':
      return bearer('an OAuth 2 access token')
    case 'openIdConnect':
      return bearer('an OpenID Connect access token')
    default:
      throw new Unusable(`the security scheme ${shown} is not supported (${clip(kindOf(value), 60)})`)
  }
}

function kindOf({ type, scheme }: JsonObject): string {
  return type === 'http' ? `http ${String(scheme).toLowerCase()}` : String(type)
}

function apiKey({ in: where, name }: JsonObject, secret: string, shown: string): Credential {
  const place = (['header', 'query', 'cookie'] as const).find((one) => one === where)
  if (place === undefined || typeof name !== 'string' || !/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,200}$/.test(name)) {
    throw new Unusable(`the security scheme ${shown} has no usable name or place`)
  }
  const what = `an API key for the ${place} ${name} (${shown})`
  return { auth: { type: place, name, value: `secret:${secret}` }, secrets: [[secret, what]] }
}
