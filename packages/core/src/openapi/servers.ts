import { quote } from '../ids/quote.ts'
import type { Operation } from './operations.ts'
import { isRecord, member, type Part, parts, refused, type Source } from './source.ts'
import type { OpenapiOptions } from './types.ts'
import { Unusable } from './unusable.ts'

/** Where the API of a document is. */
export interface Servers {
  readonly baseUrl: string
  /** What stands between the base URL and the path of an operation; throws Unusable when it lives elsewhere. */
  prefixOf(operation: Operation): string
}

/** Reads the servers; throws INPUT_INVALID when no usable URL is named, with what to do. */
export function readServers({ root }: Source, { baseUrl, location }: OpenapiOptions): Servers {
  const list = member({ value: root, path: '' }, 'servers')
  const declared = urlOf(list, location)
  const base = baseUrl ?? declared
  if (base === undefined) {
    const found = firstUrl(list)
    const says = found === undefined ? 'names no server' : `names the server ${quote(found)}`
    throw refused(`The OpenAPI document ${says}; give the base URL of the API, http or https.`, '/servers')
  }
  return {
    baseUrl: base,
    prefixOf({ servers }) {
      if (servers === undefined) return ''
      const own = urlOf(servers, location)
      const home = declared ?? base
      if (own === home) return ''
      if (own?.startsWith(`${home}/`)) return own.slice(home.length)
      throw new Unusable(`it is at ${quote(own ?? firstUrl(servers) ?? '')}, outside the base URL`)
    },
  }
}

/** The first http or https URL of a list of servers, its variables replaced by their defaults, without a slash at its end. */
function urlOf(servers: Part | undefined, location: string | undefined): string | undefined {
  for (const { value } of parts(servers)) {
    const text = isRecord(value) && typeof value.url === 'string' ? substituted(value.url, value.variables) : undefined
    const url =
      text === undefined || /[{}]/.test(text)
        ? null
        : location === undefined
          ? URL.parse(text)
          : URL.parse(text, location)
    const usable = url !== null && /^https?:$/.test(url.protocol) && url.username === '' && url.password === ''
    if (usable && url.search === '' && url.hash === '') return `${url.origin}${url.pathname}`.replace(/\/+$/, '')
  }
  return undefined
}

function substituted(url: string, variables: unknown): string {
  return url.replaceAll(/\{([^{}]+)\}/g, (whole, name: string) => {
    const variable = isRecord(variables) && Object.hasOwn(variables, name) ? variables[name] : undefined
    return isRecord(variable) && typeof variable.default === 'string' ? variable.default : whole
  })
}

function firstUrl(servers: Part | undefined): string | undefined {
  const value = parts(servers)[0]?.value
  return isRecord(value) && typeof value.url === 'string' ? value.url : undefined
}
