import { isObject } from '@gantry/contract/internal/json'
import { quote } from '@gantry/core/internal/ids/quote'
import type { Operation, Report } from './operations.ts'
import type { OpenapiOptions } from './options.ts'
import { clip, member, type Part, parts, refused, type Source, Unusable } from './source.ts'

/** The base URLs of a document. */
export interface Servers {
  readonly baseUrl: string
  /** Where an operation is, below the base URL or at an allowed origin; throws Unusable when it is elsewhere. */
  placeOf(operation: Operation): ServerLocation
  /** The origins of operations, other than that of the base URL. */
  readonly usedOrigins: ReadonlySet<string>
}

export interface ServerLocation {
  /** The path prefix between the base URL and the path of the operation. */
  readonly prefix: string
  /** Instead of the base URL of the document. */
  readonly baseUrl?: string
}

/** Reads the servers and reports the selected one; throws INPUT_INVALID with the remedy when none is usable. */
export function readServers(
  { root }: Source,
  { baseUrl, location, origins = [] }: OpenapiOptions,
  report: Report,
): Servers {
  const list = member({ value: root, path: '' }, 'servers')
  const declared = serverOf(list, location)
  const base = baseUrl ?? declared?.url
  if (base === undefined) {
    const found = firstUrl(list)
    const says = found === undefined ? 'names no server' : `names the server ${quote(found)}`
    const advice = 'give the base URL of the API, http or https, as --base-url or the option baseUrl'
    throw refused(`The OpenAPI document ${says}; ${advice}.`, '/servers')
  }
  if (baseUrl === undefined && declared !== undefined) warnOfChoice(parts(list), declared, report)
  const usedOrigins = new Set<string>()
  return {
    baseUrl: base,
    usedOrigins,
    placeOf({ servers }) {
      if (servers === undefined) return { prefix: '' }
      // A relative URL is relative to the document; without its location, to the base URL.
      const own = (serverOf(servers, location) ?? serverOf(servers, base))?.url
      const home = declared?.url ?? base
      if (own === home) return { prefix: '' }
      if (own?.startsWith(`${home}/`)) return { prefix: own.slice(home.length) }
      const origin = own === undefined ? undefined : new URL(own).origin
      if (own === undefined || origin === undefined || !(origin === new URL(base).origin || origins.includes(origin))) {
        const at = quote(own ?? firstUrl(servers) ?? '')
        throw new Unusable(`it is at ${at}, outside the base URL; allow its origin with --origin or the option origins`)
      }
      if (origin !== new URL(base).origin) usedOrigins.add(origin)
      return { prefix: '', baseUrl: own }
    },
  }
}

/** Reports the choice, because the user may need another server or region than the first one. */
function warnOfChoice(all: readonly Part[], { url, path, defaults }: Server, report: Report): void {
  if (all.length > 1) report.warn('/servers', `of ${all.length} servers, ${clip(url, 200)} is used`)
  if (defaults.size === 0) return
  const values = [...defaults].map(([name, value]) => `${clip(name, 60)} is ${quote(value)}`).join(', ')
  report.warn(`${path}/variables`, `the defaults are used: ${values}`)
}

interface Server {
  readonly url: string
  readonly path: string
  /** Variables of its URL, with the values that were put in. */
  readonly defaults: ReadonlyMap<string, string>
}

/** The first http or https URL of a list of servers, its variables replaced by their defaults, without a slash at its end. */
function serverOf(servers: Part | undefined, location: string | undefined): Server | undefined {
  for (const { value, path } of parts(servers)) {
    if (!isObject(value) || typeof value.url !== 'string') continue
    const defaults = new Map<string, string>()
    const text = substituted(value.url, value.variables, defaults)
    const url = /[{}]/.test(text) ? null : location === undefined ? URL.parse(text) : URL.parse(text, location)
    const usable = url !== null && /^https?:$/.test(url.protocol) && url.username === '' && url.password === ''
    if (usable && url.search === '' && url.hash === '') {
      return { url: `${url.origin}${url.pathname}`.replace(/(?<!\/)\/+$/, ''), path, defaults }
    }
  }
  return undefined
}

function substituted(url: string, variables: unknown, used: Map<string, string>): string {
  return url.replaceAll(/\{([^{}]+)\}/g, (whole, name: string) => {
    const variable = isObject(variables) && Object.hasOwn(variables, name) ? variables[name] : undefined
    if (!isObject(variable) || typeof variable.default !== 'string') return whole
    used.set(name, variable.default)
    return variable.default
  })
}

function firstUrl(servers: Part | undefined): string | undefined {
  const value = parts(servers)[0]?.value
  return isObject(value) && typeof value.url === 'string' ? value.url : undefined
}
