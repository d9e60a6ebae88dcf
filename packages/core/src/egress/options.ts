import { above0, callback, part, whole } from '../options/option.ts'
import { optionsCheck, refuse } from '../options/options.ts'
import type { EgressAllow, EgressEvent } from './egress.ts'
import { parseRules, type Rule } from './rules.ts'

/** An address of a name. */
export interface HostAddress {
  readonly address: string
  readonly family: number
}

/** Resolves a name; the addresses are checked. */
export type HostLookup = (host: string, signal: AbortSignal) => Promise<readonly HostAddress[]>

/** Options of an egress guard, all optional. */
export interface EgressOptions {
  /** Allowed origins. Without it, only the origins in the configuration of a backend; with an empty list, none. */
  readonly allow?: EgressAllow
  /** Most bytes of a decoded body; 16 MiB. */
  readonly maxResponseBytes?: number
  /** Most bytes of response headers; 16 KiB. */
  readonly maxHeaderBytes?: number
  /** Timeout for the DNS lookup, the connection and the TLS handshake; 10 s. */
  readonly connectMs?: number
  /** Timeout from the end of a request to the headers of its response; 30 s. */
  readonly headersMs?: number
  /** Timeout between two pieces of a body; 30 s. */
  readonly idleMs?: number
  /** Most connections in use; 352, of which a tenant holds three quarters at most. */
  readonly maxConnections?: number
  /** Most connections in use to one origin; 44, of which a tenant holds three quarters at most. */
  readonly maxConnectionsPerOrigin?: number
  /** Rate limit of requests and connections to one origin; unlimited when absent. */
  readonly rate?: { readonly perSecond: number; readonly burst: number }
  /** PEM certificates to trust in addition to the defaults. */
  readonly ca?: string | Uint8Array | readonly (string | Uint8Array)[]
  /** Replaces the resolver of the system. */
  readonly lookup?: HostLookup
  /** Called for each connection attempt and each refusal; errors it throws are ignored. */
  readonly onEvent?: (event: EgressEvent) => void
}

/** Options with defaults and parsed rules. */
export interface EgressSettings {
  readonly rules: readonly Rule[] | undefined
  readonly maxResponseBytes: number
  readonly maxHeaderBytes: number
  readonly connectMs: number
  readonly headersMs: number
  readonly idleMs: number
  readonly maxConnections: number
  readonly maxConnectionsPerOrigin: number
  readonly rate: { readonly perSecond: number; readonly burst: number } | undefined
  readonly ca: readonly (string | Uint8Array)[]
  readonly lookup: HostLookup | undefined
  readonly onEvent: ((event: EgressEvent) => void) | undefined
}

/** Defaults of the limits. */
export const egressDefaults = {
  maxResponseBytes: 16_777_216,
  maxHeaderBytes: 16_384,
  connectMs: 10_000,
  headersMs: 30_000,
  idleMs: 30_000,
  maxConnections: 352,
  maxConnectionsPerOrigin: 44,
}
/** Node timers overflow beyond this and fire at once. */
const longest = 2_147_483_647
const size = whole(1, longest)
/** The check of the options of an egress guard; `parseRules` checks `allow`. */
export const egressCheck = optionsCheck<EgressOptions>({
  members: {
    // `parseRules` checks it below.
    allow: true,
    maxResponseBytes: size,
    maxHeaderBytes: size,
    connectMs: size,
    headersMs: size,
    idleMs: size,
    maxConnections: size,
    maxConnectionsPerOrigin: size,
    rate: {
      type: 'object',
      properties: { perSecond: above0, burst: size },
      required: ['perSecond', 'burst'],
      additionalProperties: false,
    },
    ca: part(isCertificates, 'PEM text, or a list of such texts'),
    lookup: callback,
    onEvent: callback,
  },
})

/** Applies defaults; throws CONFIG_INVALID with the path of each invalid option. */
export function settingsOf(options: EgressOptions): EgressSettings {
  refuse('options of egress', egressCheck.issues(options, '/egress'))
  const { rate, ca = [], lookup, onEvent } = options
  return {
    ...egressDefaults,
    ...pick(options),
    rules: options.allow === undefined ? undefined : parseRules(options.allow, '/egress/allow'),
    rate,
    ca: [ca].flat().filter(isCertificate),
    lookup,
    onEvent,
  }
}

/** The numeric options that are set. */
function pick(options: EgressOptions): Partial<typeof egressDefaults> {
  const given = Object.entries(options).filter(
    ([key, value]) => Object.hasOwn(egressDefaults, key) && value !== undefined,
  )
  return Object.fromEntries(given)
}

function isCertificates(value: unknown): boolean {
  return Array.isArray(value) ? value.every(isCertificate) : isCertificate(value)
}

function isCertificate(value: unknown): value is string | Uint8Array {
  return typeof value === 'string' || value instanceof Uint8Array
}
