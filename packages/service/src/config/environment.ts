import type { Issue, Json, JsonObject } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { isRedisUrl, redisUrlRule } from './broker-settings.ts'

/** A variable that overrides a key of the configuration: the path of the key, and the parser of the text. */
interface Variable {
  readonly path: readonly [string] | readonly [string, string]
  /** Undefined for an invalid text. */
  readonly read: (text: string) => Json | undefined
  readonly words: string
}

const port = {
  read: (text: string) => whole(text, 0, 65_535),
  words: 'must be a port from 0 to 65535',
}

const word = { read: (text: string) => text, words: 'must be a text' }

const flag = {
  read: (text: string) =>
    text === 'true' || text === '1' ? true : text === 'false' || text === '0' ? false : undefined,
  words: 'must be true or false',
}

const overriding: { readonly [name: string]: Variable } = {
  // Read before the variable in milliseconds, which wins.
  TIMEOUT_SECONDS: {
    path: ['limits', 'timeoutMs'],
    read: (text) => above0(text, 1_000),
    words: 'must be a number of seconds above 0',
  },
  GANTRY_TIMEOUT_MS: {
    path: ['limits', 'timeoutMs'],
    read: (text) => above0(text, 1),
    words: 'must be a number of milliseconds above 0',
  },
  GANTRY_FORMAT: {
    path: ['format'],
    read: (text) => oneOf(text, ['annotate', 'assert']),
    words: 'must be annotate or assert',
  },
  GANTRY_TRANSPORT: {
    path: ['transport'],
    read: (text) => someOf(text, ['postgres', 'redis', 'kafka']),
    words: 'must be some of postgres, redis and kafka, with commas between them',
  },
  REDIS_URL: {
    path: ['redisUrl'],
    read: (text) => (isRedisUrl(text) ? text : undefined),
    words: redisUrlRule,
  },
  KAFKA_BROKERS: {
    path: ['kafkaBrokers'],
    read: (text) => {
      const brokers = text.split(',').map((broker) => broker.trim())
      return brokers.every((broker) => /^[^\s,/:]+:[0-9]{1,5}$/.test(broker)) ? brokers : undefined
    },
    words: 'must be host:port, with commas between several',
  },
  KAFKA_TLS: { path: ['kafka', 'tls'], ...flag },
  KAFKA_CA_FILE: { path: ['kafka', 'caFile'], ...word },
  KAFKA_CERT_FILE: { path: ['kafka', 'certFile'], ...word },
  KAFKA_KEY_FILE: { path: ['kafka', 'keyFile'], ...word },
  REDIS_CA_FILE: { path: ['redis', 'caFile'], ...word },
  REDIS_CERT_FILE: { path: ['redis', 'certFile'], ...word },
  REDIS_KEY_FILE: { path: ['redis', 'keyFile'], ...word },
  KAFKA_SASL_MECHANISM: { path: ['kafka', 'saslMechanism'], ...word },
  KAFKA_SASL_USERNAME: { path: ['kafka', 'username'], ...word },
  KAFKA_SASL_PASSWORD: { path: ['kafka', 'password'], ...word },
  S3_ENDPOINT: { path: ['s3', 'endpoint'], ...word },
  S3_REGION: { path: ['s3', 'region'], ...word },
  S3_BUCKET: { path: ['s3', 'bucket'], ...word },
  S3_ACCESS_KEY_ID: { path: ['s3', 'accessKeyId'], ...word },
  S3_SECRET_ACCESS_KEY: { path: ['s3', 'secretAccessKey'], ...word },
  S3_SESSION_TOKEN: { path: ['s3', 'sessionToken'], ...word },
  S3_FORCE_PATH_STYLE: { path: ['s3', 'forcePathStyle'], ...flag },
  S3_PREFIX: { path: ['s3', 'prefix'], ...word },
  S3_CA_FILE: { path: ['s3', 'caFile'], ...word },
  GANTRY_HOST: { path: ['service', 'host'], read: (text) => text, words: 'must be an address' },
  GANTRY_PORT: { path: ['service', 'port'], ...port },
  GANTRY_LOG: {
    path: ['service', 'logLevel'],
    read: (text) => oneOf(text, ['debug', 'info', 'warn', 'error', 'silent']),
    words: 'must be debug, info, warn, error or silent',
  },
  GANTRY_ROLES: {
    path: ['service', 'roles'],
    read: (text) => someOf(text, ['api', 'worker', 'relay']),
    words: 'must be some of api, worker and relay, with commas between them',
  },
  DATABASE_URL: {
    path: ['databaseUrl'],
    read: (text) => (/^postgres(?:ql)?:\/\//.test(text) ? text : undefined),
    words: 'must be the URL of a PostgreSQL database, postgres://…',
  },
  TOOL_EXECUTOR_MAX_WORKERS: {
    path: ['service', 'slots'],
    read: (text) => whole(text, 1, 10_000),
    words: 'must be a whole number from 1 to 10000',
  },
  OTEL_EXPORTER_OTLP_ENDPOINT: {
    path: ['tracing', 'endpoint'],
    read: (text) => (/^https?:\/\/[^@\s]+$/.test(text) ? text : undefined),
    words: 'must be the URL of a collector, http://… or https://…, without a name or password in it',
  },
  OTEL_EXPORTER_OTLP_HEADERS: {
    path: ['tracing', 'headers'],
    read: keyValues,
    words: 'must be name=value, with commas between several',
  },
  OTEL_EXPORTER_OTLP_CERTIFICATE: { path: ['tracing', 'caFile'], ...word },
  CIRCUIT_BREAKER_METRICS_PORT: { path: ['service', 'metricsPort'], ...port },
}

/** Variables that are read elsewhere and override no key. */
const plain: readonly string[] = ['GANTRY_CONFIG', 'GANTRY_DATA', 'GANTRY_SECRETS_KEY', 'GANTRY_URL', 'GANTRY_KEY']

/** Variables of tests and of the launcher: known, but never suggested. */
const elsewhere: readonly string[] = [
  'GANTRY_BUNDLE',
  'GANTRY_ENGINES',
  'GANTRY_FAULTS',
  'GANTRY_MATRIX',
  'GANTRY_SOAK_ENGINES',
  'GANTRY_SOAK_SEED',
  'GANTRY_SOAK_SHARE',
  'GANTRY_STARTER',
  'GANTRY_TEST_POSTGRES',
]

export const wrongEnvironment = 'An environment variable has an invalid value.'

export interface Overrides {
  /** The keys that the environment sets, in the shape of a configuration. */
  readonly document: JsonObject
  readonly issues: readonly Issue[]
  /** Unknown variables with a prefix of Gantry. */
  readonly unknown: readonly string[]
}

/** Reads the variables that override keys of the file. */
export function readEnvironment(environment: NodeJS.ProcessEnv): Overrides {
  const issues: Issue[] = []
  let document: JsonObject = {}
  for (const [name, { path, read, words }] of Object.entries(overriding)) {
    const text = environment[name]
    if (text === undefined || text === '') continue
    const value = read(text)
    // An invalid value is not merged, or the schema would report it again.
    if (value === undefined)
      issues.push({ path: `/${path.join('/')}`, message: `${words} (from the variable ${name})` })
    else document = override(document, { document: placed(path, value) })
  }
  const known = [...Object.keys(overriding), ...plain, ...elsewhere]
  const unknown = Object.keys(environment).filter((name) => name.startsWith('GANTRY_') && !known.includes(name))
  return { document, issues, unknown }
}

/** A warning for each unknown variable, without its value. */
export async function unknownVariables(names: readonly string[]): Promise<string[]> {
  if (names.length === 0) return []
  const { nearest } = await import('@gantry/core/internal/search/near')
  return names.map((name) => {
    const [near] = nearest(name, [...Object.keys(overriding), ...plain], { limit: 1 })
    return `The variable ${name} is not used.${near === undefined ? '' : ` Did you mean ${near}?`}`
  })
}

/** Merges the values of the environment into the document. */
export function override(document: JsonObject, overrides: Pick<Overrides, 'document'>): JsonObject {
  const entries = Object.entries(overrides.document).map(([key, value]) => {
    const before = document[key]
    return [key, isObject(value) ? { ...(isObject(before) ? before : {}), ...value } : value] as const
  })
  return { ...document, ...Object.fromEntries(entries) }
}

function placed([first, second]: Variable['path'], value: Json): JsonObject {
  return { [first]: second === undefined ? value : { [second]: value } }
}

function above0(text: string, unit: number): number | undefined {
  const number = Number(text) * unit
  return number > 0 && Number.isFinite(number) ? number : undefined
}

function whole(text: string, least: number, most: number): number | undefined {
  const number = Number(text)
  return Number.isInteger(number) && number >= least && number <= most ? number : undefined
}

/** Headers in the format of OpenTelemetry: comma-separated pairs with URL-encoded values. */
function keyValues(text: string): JsonObject | undefined {
  const pairs = text.split(',').map((pair) => /^\s*([^\s=]+)\s*=\s*(.*?)\s*$/.exec(pair))
  if (pairs.includes(null)) return undefined
  try {
    return Object.fromEntries(pairs.map((pair) => [pair?.[1], decodeURIComponent(pair?.[2] ?? '')]))
  } catch {
    return undefined
  }
}

function someOf(text: string, words: readonly string[]): string[] | undefined {
  const those = text.split(',').map((word) => word.trim())
  return those.every((word) => words.includes(word)) ? those : undefined
}

function oneOf(text: string, words: readonly string[]): string | undefined {
  return words.includes(text) ? text : undefined
}
