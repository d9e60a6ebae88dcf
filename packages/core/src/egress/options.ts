import { type Issue, ToolError } from '@gantry/contract'
import { isObject } from '../json/kinds.ts'
import { didYouMean } from '../search/near.ts'
import type { EgressAllow, EgressEvent } from './egress.ts'
import { parseRules, type Rule } from './rules.ts'

/** An address that a name leads to. */
export interface HostAddress {
  readonly address: string
  readonly family: number
}

/** Finds the addresses of a name; its answers are checked like any others. */
export type HostLookup = (host: string, signal: AbortSignal) => Promise<readonly HostAddress[]>

/** How a guard is made; all of it may be left out. */
export interface EgressOptions {
  /** What may be reached; without it, only what a backend's own configuration names, and with an empty list nothing. */
  readonly allow?: EgressAllow
  /** Bytes of one body after decoding; 16 MiB. */
  readonly maxResponseBytes?: number
  /** Bytes of one response's headers; 16 KiB. */
  readonly maxHeaderBytes?: number
  /** Time for finding the address, connecting and encrypting; 10 s. */
  readonly connectMs?: number
  /** Time from the end of a request to the headers of its response; 30 s. */
  readonly headersMs?: number
  /** Time between two pieces of a body; 30 s. */
  readonly idleMs?: number
  /** Connections at once; 256. */
  readonly maxConnections?: number
  /** Connections at once to one origin; 32. */
  readonly maxConnectionsPerOrigin?: number
  /** Requests and connections to one origin; unlimited when absent. */
  readonly rate?: { readonly perSecond: number; readonly burst: number }
  /** PEM certificates to trust beside the usual ones. */
  readonly ca?: string | Uint8Array | readonly (string | Uint8Array)[]
  /** Instead of the system's resolver. */
  readonly lookup?: HostLookup
  /** Hears of each attempt to connect and each refusal; what it throws is ignored. */
  readonly onEvent?: (event: EgressEvent) => void
}

/** Options with everything filled in and the rules parsed. */
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

const numbers = {
  maxResponseBytes: 16_777_216,
  maxHeaderBytes: 16_384,
  connectMs: 10_000,
  headersMs: 30_000,
  idleMs: 30_000,
  maxConnections: 256,
  maxConnectionsPerOrigin: 32,
}
/** Node's timers overflow beyond this, and fire at once. */
const longest = 2_147_483_647
const known = [...Object.keys(numbers), 'allow', 'rate', 'ca', 'lookup', 'onEvent']

/** Fills in what is missing, or throws CONFIG_INVALID with the path of each wrong option. */
export function settingsOf(options: EgressOptions): EgressSettings {
  const issues: Issue[] = []
  const fault = (key: string, message: string): void => void issues.push({ path: `/egress${key}`, message })
  for (const key of Object.keys(options)) {
    if (!known.includes(key)) fault(`/${key}`, `is not an option${didYouMean(key, known)}`)
  }
  for (const key of Object.keys(numbers) as (keyof typeof numbers)[]) {
    if (options[key] !== undefined && !isWhole(options[key])) fault(`/${key}`, 'must be a whole number above 0')
  }
  const { rate, ca = [], lookup, onEvent } = options
  if (rate !== undefined && !(isObject(rate) && isAbove0(rate.perSecond) && isWhole(rate.burst))) {
    fault('/rate', 'must be { perSecond, burst }: a number above 0 and a whole number above 0')
  }
  const certificates: readonly unknown[] = Array.isArray(ca) ? ca : [ca]
  if (!certificates.every(isCertificate)) fault('/ca', 'must be PEM text, or a list of such texts')
  if (lookup !== undefined && typeof lookup !== 'function') fault('/lookup', 'must be a function')
  if (onEvent !== undefined && typeof onEvent !== 'function') fault('/onEvent', 'must be a function')
  if (issues.length > 0) {
    const text = issues.map(({ path, message }) => `${path} ${message}`).join('; ')
    throw new ToolError('CONFIG_INVALID', `Egress was given wrong options: ${text}.`, { details: { issues } })
  }
  return {
    ...numbers,
    ...pick(options),
    rules: options.allow === undefined ? undefined : parseRules(options.allow, '/egress/allow'),
    rate,
    ca: certificates.filter(isCertificate),
    lookup,
    onEvent,
  }
}

/** The numbers that were given. */
function pick(options: EgressOptions): Partial<typeof numbers> {
  const given = Object.entries(options).filter(([key, value]) => Object.hasOwn(numbers, key) && value !== undefined)
  return Object.fromEntries(given)
}

function isCertificate(value: unknown): value is string | Uint8Array {
  return typeof value === 'string' || value instanceof Uint8Array
}

function isWhole(value: unknown): boolean {
  return Number.isInteger(value) && Number(value) > 0 && Number(value) <= longest
}

function isAbove0(value: unknown): boolean {
  return typeof value === 'number' && Number.isFinite(value) && value > 0
}
