import type { JsonSchema } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { defaultChainLimits } from '@gantry/core/internal/chain/limits'
import { egressDefaults } from '@gantry/core/internal/egress/options'
import { defaultLimits as executorLimits } from '@gantry/core/internal/executor-options'
import { defaultPools } from '@gantry/sandbox/internal/pools/pools'
import { defaultMaxima, defaultLimits as sandboxLimits } from '@gantry/sandbox/internal/selection/limits'
import { kafkaDefaults, redisDefaults } from '@gantry/service/internal/config/broker-settings'
import { publishedSchema } from '@gantry/service/internal/config/published-schema'
import { defaultSettings } from '@gantry/service/internal/config/service-settings'
import { otherDefaults, otherDescriptions } from './config-texts.ts'
import { itemType, readSources, type SourceMember } from './interfaces.ts'

/** A key of a configuration. */
export interface ConfigKeyInfo {
  /** `service.port`; `*` stands for a name of one's own, `[]` for each item of a list. */
  readonly path: string
  readonly depth: number
  readonly schema: Keywords
  readonly type: string
  /** As JSON; `required` when the key above it cannot be without it. */
  readonly fallback: string
  readonly description: string
}

type Keywords = { readonly [keyword: string]: unknown }

/** Defaults that the code applies, by the path of the object that has them. */
const defaults: { readonly [path: string]: object } = {
  service: defaultSettings,
  limits: executorLimits,
  'limits.chain': defaultChainLimits,
  egress: egressDefaults,
  kafka: kafkaDefaults,
  redis: redisDefaults,
  'runtimes.pool': defaultPools,
  'runtimes.limits': sandboxLimits,
  'runtimes.maxLimits': defaultMaxima,
}

/** Every key of the configuration, in the order of the schema, with what the source says of it. */
export function configKeys(root: string): { readonly keys: readonly ConfigKeyInfo[]; readonly schema: JsonSchema } {
  const sources = readSources(root)
  const keys: ConfigKeyInfo[] = []
  const walk = (schema: Keywords, path: string, depth: number, type: string): Keywords => {
    const own = isObject(schema.properties) ? (schema.properties as Keywords) : {}
    const required: readonly unknown[] = Array.isArray(schema.required) ? schema.required : []
    const properties = Object.entries(own).map(([name, value]): [string, unknown] => {
      const at = path === '' ? name : `${path}.${name}`
      const member = type === '' ? undefined : sources.memberOf(type, name)
      const keywords = isObject(value) ? (value as Keywords) : {}
      const description = textOf(at, member)
      const fallback = fallbackOf(at, path, name, required.includes(name), description)
      keys.push({ path: at, depth, schema: keywords, type: typeOf(keywords), fallback, description })
      const inner = nested(keywords, at, depth + 1, typesOfKeys[at] ?? member?.type ?? '')
      return [name, { ...inner, ...(description === '' ? {} : { description }) }]
    })
    return properties.length === 0 ? schema : { ...schema, properties: Object.fromEntries(properties) }
  }
  /** The same schema with the keys of its objects described; each key of a choice is listed once. */
  const nested = (schema: Keywords, path: string, depth: number, type: string): Keywords => {
    const isUnion = Array.isArray(schema.anyOf) || Array.isArray(schema.oneOf)
    if (isUnion) {
      const word = Array.isArray(schema.anyOf) ? 'anyOf' : 'oneOf'
      const branches = (schema[word] as readonly unknown[]).map((branch) => {
        if (!isObject(branch)) return branch
        const kind = kindOf(branch as Keywords)
        const label = path === 'backends[]' && kind !== undefined ? `${path} (${kind})` : path
        return nested(branch as Keywords, label, depth, kind === undefined ? type : (backendTypes[kind] ?? type))
      })
      return { ...walk(schema, path, depth, type), [word]: branches }
    }
    if (isObject(schema.items)) {
      const items = nested(schema.items as Keywords, `${path}[]`, depth, itemType(type))
      return { ...walk(schema, path, depth, itemType(type)), items }
    }
    if (isObject(schema.additionalProperties)) {
      const inner = nested(schema.additionalProperties as Keywords, `${path}.*`, depth, itemType(type))
      return { ...walk(schema, path, depth, type), additionalProperties: inner }
    }
    return walk(schema, path, depth, type)
  }
  const whole = publishedSchema()
  const described = walk(isObject(whole) ? (whole as Keywords) : {}, '', 0, 'ConfigDocument')
  return { keys: unique(keys), schema: described as JsonSchema }
}

/** Types of keys whose member has another one in the source. */
const typesOfKeys: { readonly [path: string]: string } = {
  'engines.temporal': 'TemporalSettings',
  'egress.allow': 'readonly EgressRule[]',
  'service.callbackOrigins': 'readonly EgressRule[]',
}

const backendTypes: { readonly [kind: string]: string } = {
  mcp: 'McpOptions',
  http: 'HttpOptions',
  grpc: 'GrpcOptions',
}

function kindOf({ properties }: Keywords): string | undefined {
  const kind = isObject(properties) ? (properties as Keywords).kind : undefined
  return isObject(kind) && typeof kind.const === 'string' ? kind.const : undefined
}

/** Branches of a choice can have the same key. */
function unique(keys: readonly ConfigKeyInfo[]): readonly ConfigKeyInfo[] {
  const seen = new Map<string, ConfigKeyInfo>()
  for (const key of keys) if (!seen.has(key.path)) seen.set(key.path, key)
  return [...seen.values()]
}

function textOf(path: string, member: SourceMember | undefined): string {
  const own = otherDescriptions[path]
  const doc = own ?? (member === undefined || member.doc === '' ? byEnd(otherDescriptions, path) : member.doc) ?? ''
  return doc.replaceAll(/\{@link (\w+)\}/g, '`$1`')
}

/** What a table says of the longest end of a path. */
export function byEnd<T>(table: { readonly [path: string]: T }, path: string): T | undefined {
  const ends = Object.keys(table).filter(
    (end) => path === end || path.endsWith(`.${end}`) || (/^[[(*]/.test(end) && path.endsWith(end)),
  )
  const [longest] = ends.sort((one, other) => other.length - one.length)
  return longest === undefined ? undefined : table[longest]
}

const absent =
  /(?:^|[;:.,] )((?:[^;:.,]|(?<=\d),(?=\d)|\.(?=\w)){1,60}?) (?:when|if) absent|(?:^|[;:.,] )([^;:.,]{1,60}?) by default/i
const ending = /; (`?\d[\w,. ]{0,24}`?)\.$/

function fallbackOf(path: string, parent: string, name: string, isRequired: boolean, description: string): string {
  const own = byEnd(otherDefaults, path)
  if (own !== undefined) return own
  const set = defaults[parent]
  const value = set === undefined ? undefined : Reflect.get(set, name)
  if (value !== undefined && (typeof value !== 'object' || Array.isArray(value))) return `\`${JSON.stringify(value)}\``
  if (isRequired) return 'required'
  const [, one, two] = absent.exec(description) ?? []
  const [, last] = ending.exec(description) ?? []
  return one ?? two ?? last ?? 'none'
}

/** The type of a value in words. */
export function typeOf(schema: Keywords): string {
  const { type, enum: words, const: only, items, anyOf, oneOf, description, additionalProperties } = schema
  const choices = Array.isArray(anyOf) ? anyOf : Array.isArray(oneOf) && type === undefined ? oneOf : undefined
  if (only !== undefined) return `\`${JSON.stringify(only)}\``
  if (Array.isArray(words)) return words.map((word) => `\`${String(word)}\``).join(', ')
  if (choices !== undefined) {
    const names = choices.map((branch) => (isObject(branch) ? typeOf(branch as Keywords) : 'any'))
    return [...new Set(names)].join(' or ')
  }
  if (type === 'array') return `list of ${plural(isObject(items) ? typeOf(items as Keywords) : 'values')}`
  if (type === 'object') {
    return isObject(additionalProperties) ? `${typeOf(additionalProperties as Keywords)} by name` : 'object'
  }
  if (Array.isArray(type)) return type.map((word) => typeOf({ ...schema, type: word })).join(' or ')
  if (type === 'boolean') return '`true` or `false`'
  if (type === 'integer' || type === 'number') return numberOf(schema)
  if (typeof description === 'string' && !/^a string( that is not empty)?$/.test(description)) {
    return description.replace(/^an? /, '')
  }
  return type === 'string' ? textType(schema) : 'value'
}

function plural(type: string): string {
  return type === 'string' || type === 'object' ? `${type}s` : type
}

function numberOf({ type, minimum, maximum, exclusiveMinimum }: Keywords): string {
  const noun = type === 'integer' ? 'whole number' : 'number'
  const most = typeof maximum === 'number' && maximum < Number.MAX_SAFE_INTEGER ? count(maximum) : undefined
  if (typeof exclusiveMinimum === 'number')
    return `${noun} above ${exclusiveMinimum}${most === undefined ? '' : `, at most ${most}`}`
  if (typeof minimum !== 'number') return noun
  return most === undefined ? `${noun}, at least ${count(minimum)}` : `${noun}, ${count(minimum)} to ${most}`
}

function count(value: number): string {
  return value.toLocaleString('en-US')
}

function textType({ maxLength }: Keywords): string {
  return typeof maxLength === 'number' ? `string of at most ${count(maxLength)} characters` : 'string'
}
