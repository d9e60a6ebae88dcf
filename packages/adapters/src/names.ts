import { ToolError } from '@gantry/contract'
import type { CatalogEntry } from '@gantry/core/internal/catalogs/catalog'
import { compareVersions, parseVersion, type Version } from '@gantry/core/internal/ids/version'
import { sha256 } from '@gantry/core/internal/json/canonical'

/** Resolves names of a format to tools; fixed when the tools are written. */
export interface Names {
  /** The entry of a name. */
  find(name: string): CatalogEntry | undefined
  /** The name of a tool, by its full id. */
  nameOf(id: string): string | undefined
  /** All names, in the order of the tools. */
  readonly list: readonly string[]
}

/** The names that every format accepts: OpenAI, Anthropic and Gemini allow 64 characters, and Gemini wants a letter or `_` first. */
const longest = 64
const plainNamespace = /^[A-Za-z_][A-Za-z0-9_-]*$/
const plainName = /^[A-Za-z0-9_-]+$/

/**
 * The name of a tool in every format: `namespace__name` when that is unambiguous, else readable words and a digest of
 * the id. The two kinds never collide, because only the first contains `__`.
 */
export function formatName(key: string, digits = 12): string {
  const [namespace = '', name = '', ...version] = key.split(':')
  const plain = `${namespace}__${name}`
  const clear = plainNamespace.test(namespace) && !namespace.includes('__') && !namespace.endsWith('_')
  if (clear && plainName.test(name) && version.length === 0 && plain.length <= longest) return plain
  const words = key.replace(/[^A-Za-z0-9-]+/g, '_')
  const start = /^[A-Za-z_]/.test(words) ? words : `t_${words}`
  return `${start.slice(0, longest - digits - 1)}-${sha256(key).slice(0, digits)}`
}

/**
 * Names for a list of tools: the newest version of each has the plain name, older versions in the same list have one
 * from their full id. Two ids never share a name: a colliding digest is extended.
 */
export function nameTable(entries: Iterable<CatalogEntry>): Names {
  const unique = new Map([...entries].map((entry) => [entry.id, entry]))
  const newest = new Map<string, CatalogEntry>()
  for (const entry of unique.values()) {
    const held = newest.get(entry.key)
    if (held === undefined || isNewer(entry, held)) newest.set(entry.key, entry)
  }
  const byName = new Map<string, CatalogEntry>()
  const byId = new Map<string, string>()
  for (const entry of unique.values()) {
    const name = freeName(newest.get(entry.key) === entry ? entry.key : entry.id, byName)
    byName.set(name, entry)
    byId.set(entry.id, name)
  }
  const list = Object.freeze([...byName.keys()])
  return { find: (name) => byName.get(name), nameOf: (id) => byId.get(id), list }
}

function freeName(key: string, taken: ReadonlyMap<string, unknown>): string {
  for (const digits of [12, 40]) {
    const name = formatName(key, digits)
    if (!taken.has(name)) return name
  }
  throw new ToolError('TOOL_INVALID', `There is no free name for the tool ${key}.`)
}

const oldest: Version = { major: -1, minor: 0, patch: 0, prerelease: [], build: '' }

function isNewer(a: CatalogEntry, b: CatalogEntry): boolean {
  return compareVersions(parseVersion(a.tool.version) ?? oldest, parseVersion(b.tool.version) ?? oldest) > 0
}
