import { type EffectClass, type Issue, ToolError } from '@gantry/contract'
import { quote } from '@gantry/core/internal/ids/quote'
import { fetchSecrets, fillSecrets, secretNames } from '@gantry/core/internal/ids/secret-reference'
import { namespaceFault } from '@gantry/core/internal/ids/tool-id'
import { unknownKeys } from '@gantry/core/internal/search/near'

/** Certificates of a connection, as PEM text or bytes; a text may be `secret:name` instead. */
export interface GrpcTls {
  /** Trusted instead of the usual authorities. */
  readonly ca?: string | Uint8Array
  readonly cert?: string | Uint8Array
  readonly key?: string | Uint8Array
  /** The name that the server's certificate must have; the host of the address when absent. */
  readonly serverName?: string
}

/** How to reach a gRPC server, and which of its methods are tools. */
export interface GrpcOptions {
  /** The name in bindings, and the namespace of the tools. */
  readonly name: string
  /** `host:port` or `grpcs://host:port`, encrypted; `grpc://host:port`, not encrypted. */
  readonly address: string
  /** Files that declare the services: `.proto`, or descriptor sets as `protoc -o` and `buf build -o` write them. */
  readonly proto?: string | readonly string[]
  /** Where imports of `.proto` files are looked for. */
  readonly includeDirs?: readonly string[]
  /** Asks the server itself what it serves; exactly one of `proto` and `reflection` is needed. */
  readonly reflection?: boolean
  /** `false` for `host:port` without encryption. A certificate is always verified. */
  readonly tls?: boolean | GrpcTls
  /** Sent with every call; values may be, or hold, `secret:name`. */
  readonly metadata?: { readonly [name: string]: string }
  /** Lets the address be private; it counts while the executor has no egress rules of its own. */
  readonly private?: boolean
  /** Only these: `package.Service` or `package.Service/Method`. */
  readonly services?: readonly string[]
  /** What a repeat of a method may do, by `package.Service/Method`; `once` for those not named. */
  readonly effects?: { readonly [method: string]: EffectClass }
  /** Bytes of one message from the server; 4 MiB. */
  readonly maxResponseBytes?: number
  /** `false` brings no tools; methods are then reached by tools whose bindings name them. */
  readonly tools?: 'all' | false
}

/** Where a channel goes. */
export interface Place {
  /** A name or an address, without brackets. */
  readonly host: string
  readonly port: number
  readonly secure: boolean
  /** Host and port as they stand in a URL. */
  readonly authority: string
}

const known: { readonly [Key in keyof Required<GrpcOptions>]: true } = {
  name: true,
  address: true,
  proto: true,
  includeDirs: true,
  reflection: true,
  tls: true,
  metadata: true,
  private: true,
  services: true,
  effects: true,
  maxResponseBytes: true,
  tools: true,
}
const tlsKeys = ['ca', 'cert', 'key', 'serverName']
const effectClasses = ['read', 'keyed', 'reconcilable', 'once', 'repeatable']

/** Checks options once, at the edge, and gives where they lead; throws CONFIG_INVALID with every failing path. */
export function checkGrpcOptions(options: GrpcOptions): Place {
  if (!isRecord(options)) throw new ToolError('CONFIG_INVALID', 'grpc takes an object of options.')
  const issues: Issue[] = [...unknownKeys(options, Object.keys(known), '', 'is not an option')]
  const place = parseAddress(options)
  if (typeof place === 'string') issues.push({ path: '/address', message: place })
  issues.push(...optionFaults(options))
  if (issues.length === 0 && typeof place !== 'string') return place
  const text = issues.map(({ path, message }) => `${path} ${message}`).join('; ')
  throw new ToolError('CONFIG_INVALID', `grpc was given wrong options: ${text}.`, { details: { issues } })
}

function* optionFaults(options: GrpcOptions): Generator<Issue> {
  const { name, proto, reflection, tls, metadata, maxResponseBytes: most, tools } = options
  const nameFault = typeof name === 'string' ? namespaceFault(name) : 'must be text'
  if (nameFault !== undefined) yield { path: '/name', message: nameFault }
  if (proto !== undefined && !isText(proto) && !isTexts(proto)) yield { path: '/proto', message: 'must be file paths' }
  if ((proto !== undefined) === (reflection === true)) {
    yield { path: '/proto', message: 'or /reflection must be given, and not both' }
  }
  for (const key of ['reflection', 'private'] as const) {
    const value: unknown = options[key]
    if (value !== undefined && typeof value !== 'boolean') yield { path: `/${key}`, message: 'must be true or false' }
  }
  for (const key of ['includeDirs', 'services'] as const) {
    if (options[key] !== undefined && !isTexts(options[key]))
      yield { path: `/${key}`, message: 'must be a list of texts' }
  }
  if (tls !== undefined && typeof tls !== 'boolean') yield* tlsFaults(tls)
  for (const [key, value] of Object.entries(metadata ?? {})) {
    const fault = metadataFault(key, value)
    if (fault !== undefined) yield { path: `/metadata/${key.slice(0, 64)}`, message: fault }
  }
  for (const [method, effect] of Object.entries(options.effects ?? {})) {
    const message = `must be one of ${effectClasses.join(', ')}`
    if (!effectClasses.includes(effect)) yield { path: `/effects/${method.slice(0, 64)}`, message }
  }
  if (most !== undefined && !(Number.isInteger(most) && most > 0)) {
    yield { path: '/maxResponseBytes', message: 'must be a whole number above 0' }
  }
  if (tools !== undefined && tools !== 'all' && tools !== false)
    yield { path: '/tools', message: "must be 'all' or false" }
}

function* tlsFaults(tls: GrpcTls): Generator<Issue> {
  if (!isRecord(tls)) return yield { path: '/tls', message: 'must be true, false or an object' }
  yield* unknownKeys(tls, tlsKeys, '/tls', 'is not an option')
  for (const key of tlsKeys) {
    const value: unknown = tls[key]
    const bytes = key !== 'serverName' && value instanceof Uint8Array
    if (value !== undefined && !isText(value) && !bytes) yield { path: `/tls/${key}`, message: 'must be text' }
  }
}

/** Reads an address as WHATWG reads a URL, so that what is checked later is what was meant here. */
function parseAddress({ address, tls }: GrpcOptions): Place | string {
  const words = 'must be host:port, grpcs://host:port or grpc://host:port'
  if (!isText(address)) return words
  const [, scheme, rest = ''] = /^(?:(grpcs?):\/\/)?([^/?#@\\\s]+)\/?$/.exec(address) ?? []
  const secure = scheme === undefined ? tls !== false : scheme === 'grpcs'
  const url = URL.parse(`${secure ? 'https' : 'http'}://${rest}`)
  if (rest === '' || url === null || (scheme === undefined && !/:\d+$/.test(rest))) return words
  if (scheme === 'grpc' && tls !== undefined && tls !== false) return 'is not encrypted with grpc://; write grpcs://'
  if (scheme === 'grpcs' && tls === false) return 'is encrypted with grpcs://; write grpc:// or leave out tls: false'
  const port = url.port === '' ? (secure ? 443 : 80) : Number(url.port)
  if (port === 0) return words
  return { host: url.hostname.replace(/^\[|\]$/g, ''), port, secure, authority: `${url.hostname}:${port}` }
}

function isRecord(value: unknown): value is { readonly [key: string]: unknown } {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== ''
}

function isTexts(value: unknown): boolean {
  return Array.isArray(value) && value.every(isText)
}

type Metadata = { readonly [name: string]: string }

const reserved = new Set(['te', 'content-type', 'user-agent', 'host', 'connection', 'keep-alive', 'upgrade'])
for (const name of ['transfer-encoding', 'proxy-connection', 'http2-settings', 'content-length']) reserved.add(name)

/** Says what is wrong with one entry of metadata, or gives undefined. */
function metadataFault(name: string, value: unknown): string | undefined {
  if (!/^[0-9a-z_.-]{1,128}$/.test(name)) return 'must be a name of lower-case letters, digits, `_`, `.` and `-`'
  if (name.startsWith('grpc-') || reserved.has(name)) return 'is a name that gRPC keeps for itself'
  if (typeof value !== 'string') return 'must be text'
  if (value.includes('secret:')) return undefined
  return valueFault(name, value)
}

/**
 * The metadata of one call, later lists before earlier ones. `secret:name` is put in here and nowhere before; what a
 * secret turns out to hold is checked like the rest. The idempotency key goes along unless an entry names it.
 */
export async function fillMetadata(
  lists: readonly (Metadata | undefined)[],
  idempotencyKey: string | undefined,
  secret: (name: string) => Promise<string>,
): Promise<{ readonly [name: string]: string }> {
  const filled: { [name: string]: string } = {}
  if (idempotencyKey !== undefined && valueFault('idempotency-key', idempotencyKey) === undefined) {
    filled['idempotency-key'] = idempotencyKey
  }
  const entries = lists.flatMap((list) => Object.entries(list ?? {}))
  for (const [name, value] of entries) {
    const fault = metadataFault(name, value)
    if (fault !== undefined) throw new ToolError('CONFIG_INVALID', `The metadata ${quote(name)} ${fault}.`)
  }
  const names = secretNames(entries.map(([, value]) => value))
  const secrets = await fetchSecrets(names, secret)
  for (const [name, value] of entries) {
    const full = fillSecrets(value, secrets)
    const inside = valueFault(name, full)
    if (inside !== undefined) throw unfit(name, inside)
    filled[name] = full
  }
  return filled
}

/** For a secret that cannot stand where the configuration wants it; its value is not shown. */
function unfit(name: string, fault: string): ToolError {
  const message = `The metadata ${quote(name)} ${fault}; its secret holds something else.`
  return new ToolError('SECRET_UNAVAILABLE', message, { retryable: false })
}

/** A line break would begin another header; `-bin` values travel as base64. */
function valueFault(name: string, value: string): string | undefined {
  if (name.endsWith('-bin')) return /^[A-Za-z0-9+/]*={0,2}$/.test(value) ? undefined : 'must be base64'
  return /^[\x20-\x7e]*$/.test(value) ? undefined : 'may hold only printable ASCII characters, and no line break'
}
