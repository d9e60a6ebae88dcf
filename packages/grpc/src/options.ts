import { type EffectClass, type Issue, ToolError } from '@gantry/contract'
import { isObject, isText } from '@gantry/contract/internal/json'
import { quote } from '@gantry/core/internal/ids/quote'
import { fetchSecrets, fillSecrets, secretNames } from '@gantry/core/internal/ids/secret-reference'
import { namespaceFault } from '@gantry/core/internal/ids/tool-id'
import { type Check, either, flag, mapOf, part, ruled, text, texts, whole } from '@gantry/core/internal/options/option'
import { optionsCheck, refusal } from '@gantry/core/internal/options/options'
import { escapeSegment } from '@gantry/json-schema/internal/pointer'

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
  /** The effect class of a method, by `package.Service/Method`; `once` for those not named. */
  readonly effects?: { readonly [method: string]: EffectClass }
  /** Bytes of one message from the server; 4 MiB. */
  readonly maxResponseBytes?: number
  /** `false` brings no tools; methods are then reached by tools whose bindings name them. */
  readonly tools?: 'all' | false
}

/** The address of a server. */
export interface Endpoint {
  /** A name or an address, without brackets. */
  readonly host: string
  readonly port: number
  readonly secure: boolean
  /** Host and port as in a URL. */
  readonly authority: string
}

const pem = part((value) => isText(value) || value instanceof Uint8Array, 'PEM text or bytes')
const effectClasses = ['read', 'keyed', 'reconcilable', 'once', 'repeatable']

const metadataCheck: Check = {
  schema: { type: 'object', additionalProperties: { type: 'string' } },
  fits: (value) => metadataIssues(value, '').length === 0,
  issues: metadataIssues,
}

/** The check of the options of a gRPC backend. */
export const grpcCheck = optionsCheck<GrpcOptions>({
  members: {
    name: ruled(namespaceFault),
    address: text(),
    proto: { anyOf: [text(), texts], description: 'a file path or a list of file paths' },
    includeDirs: texts,
    reflection: flag,
    tls: either(
      part((value) => typeof value === 'boolean', 'true or false', flag),
      optionsCheck<GrpcTls>({ members: { ca: pem, cert: pem, key: pem, serverName: text() } }),
    ),
    metadata: metadataCheck,
    private: flag,
    services: texts,
    effects: mapOf(
      part((value) => isText(value) && effectClasses.includes(value), `one of ${effectClasses.join(', ')}`),
    ),
    maxResponseBytes: whole(1),
    tools: part((value) => value === 'all' || value === false, '"all" or false'),
  },
  required: ['name', 'address'],
})

/** Checks options once, at the edge, and gives where they lead; throws CONFIG_INVALID with every failing path. */
export function checkGrpcOptions(options: GrpcOptions): Endpoint {
  const issues = [...grpcCheck.issues(options, '')]
  if (!isObject(options)) throw refusal('options of grpc', issues)
  const { address, proto, reflection } = options
  if ((proto !== undefined) === (reflection === true)) {
    issues.push({ path: '/proto', message: 'or /reflection must be given, and not both' })
  }
  const endpoint = isText(address) && address !== '' ? parseAddress(options) : undefined
  if (typeof endpoint === 'string') issues.push({ path: '/address', message: endpoint })
  if (issues.length === 0 && typeof endpoint === 'object') return endpoint
  throw refusal('options of grpc', issues)
}

function metadataIssues(value: unknown, path: string): readonly Issue[] {
  if (!isObject(value)) return [{ path, message: 'must be an object' }]
  return Object.entries(value).flatMap(([name, member]) => {
    const message = metadataFault(name, member)
    return message === undefined ? [] : [{ path: `${path}/${escapeSegment(name.slice(0, 64))}`, message }]
  })
}

/** Reads an address as WHATWG reads a URL, so that what is checked later is what was meant here. */
function parseAddress({ address, tls }: GrpcOptions): Endpoint | string {
  const words = 'must be host:port, grpcs://host:port or grpc://host:port'
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

/** For a secret that is invalid where the configuration uses it; its value is not shown. */
function unfit(name: string, fault: string): ToolError {
  const message = `The metadata ${quote(name)} ${fault}; its secret holds something else.`
  return new ToolError('SECRET_UNAVAILABLE', message, { retryable: false })
}

/** A line break would begin another header; `-bin` values travel as base64. */
function valueFault(name: string, value: string): string | undefined {
  if (name.endsWith('-bin')) return /^[A-Za-z0-9+/]*={0,2}$/.test(value) ? undefined : 'must be base64'
  return /^[\x20-\x7e]*$/.test(value) ? undefined : 'may hold only printable ASCII characters, and no line break'
}
