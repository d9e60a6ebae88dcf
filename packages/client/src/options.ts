import {
  type ChainStep,
  type Issue,
  type Json,
  type JsonObject,
  type OnCircuitOpen,
  type ProgramLanguage,
  type ProgramLimits,
  ToolError,
} from '@gantry/contract'
import { isWhole } from './credentials.ts'

/** How to reach a service. */
export interface ClientOptions {
  /** Such as `http://127.0.0.1:7420`. */
  readonly url: string
  /** The text of the service's key file, a key of `gantry keys` or a token; one that signs (`gs_…`) is not sent. */
  readonly key?: string
  /** Instead of the global one. */
  readonly fetch?: typeof globalThis.fetch
  /** Retries of a request that failed or was answered with a busy status; 5 when absent. */
  readonly retries?: number
  /** The delay before the first retry, which doubles with each further one; 250 when absent. */
  readonly retryDelayMs?: number
}

/** Options of every request. */
export interface Waiting {
  /** Ends the wait with CANCELLED. */
  readonly signal?: AbortSignal | undefined
}

/** How a call is submitted. */
export interface SubmitOptions extends Waiting {
  /** The same key is the same call; generated when absent, so that no retry of the client runs twice. */
  readonly idempotencyKey?: string | undefined
  readonly priority?: number | undefined
  readonly timeoutMs?: number | undefined
  /** The call does not start before this delay. */
  readonly delayMs?: number | undefined
  /** ISO time after which the call must not run. */
  readonly deadline?: string | undefined
  /** Where the outcome is sent, signed. */
  readonly callback?: string | undefined
  /** While the circuit of the tool is open: CIRCUIT_OPEN at once, or wait for it; the tool's setting when absent. */
  readonly onCircuitOpen?: OnCircuitOpen | undefined
  /** Digest of the tool as the caller saw it; another one is CATALOG_STALE. Not for chains. */
  readonly schemaDigest?: string | undefined
  /** The W3C trace context of the call; an invalid value is ignored. */
  readonly traceparent?: string | undefined
}

export interface CallOptions extends SubmitOptions {
  /** Whether the call is cancelled when `signal` aborts or its stream is closed; true when absent. */
  readonly cancelOnAbort?: boolean | undefined
}

export interface ChainOptions extends CallOptions {
  /** The value of `{{input}}`. */
  readonly input?: Json | undefined
}

export interface CodeOptions extends CallOptions {
  /** `typescript` when absent. */
  readonly language?: ProgramLanguage | undefined
  readonly limits?: ProgramLimits | undefined
  /** Whether the code is checked against the schemas of its tools before it runs. */
  readonly check?: boolean | undefined
}

/** The headers of a submission; a trace that is not a valid header value is omitted. */
export function submitHeaders({ traceparent = '' }: SubmitOptions): { readonly [name: string]: string } {
  return /^[\x21-\x7e]{1,512}$/.test(traceparent) ? { traceparent } : {}
}

/** The body of a submission. */
export function callBody(tool: string, args: JsonObject, options: SubmitOptions): { [member: string]: unknown } {
  return { tool, args, ...common(options), schemaDigest: options.schemaDigest }
}

export function chainBody(steps: readonly ChainStep[], options: ChainOptions): { [member: string]: unknown } {
  return { steps, input: options.input, ...common(options) }
}

export function codeBody(code: string, options: CodeOptions): { [member: string]: unknown } {
  const { language, limits, check } = options
  return { code, language, limits, check, ...common(options) }
}

function common(options: SubmitOptions) {
  const { priority, timeoutMs, delayMs, deadline, callback, onCircuitOpen, idempotencyKey = newKey() } = options
  return { idempotencyKey, priority, timeoutMs, delayMs, deadline, callback, onCircuitOpen }
}

/** 128 random bits; `randomUUID` is not there for pages that came without TLS. */
function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16))
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
}

/** The options, checked and completed. Throws CONFIG_INVALID. */
export function readOptions(options: ClientOptions): Required<Omit<ClientOptions, 'key'>> & { readonly key?: string } {
  const { url, key, fetch = globalThis.fetch.bind(globalThis), retries = 5, retryDelayMs = 250, ...unknown } = options
  const issues: Issue[] = Object.keys(unknown).map((name) => ({ path: `/${name}`, message: 'is not an option' }))
  const base = URL.canParse(url) ? new URL(url) : undefined
  const plain = base !== undefined && base.username === '' && base.search === '' && base.hash === ''
  if (!plain || !/^https?:$/.test(base.protocol)) {
    issues.push({ path: '/url', message: 'must be an http or https URL without user, query and fragment' })
  }
  if (key !== undefined && !/^[\x21-\x7e]+$/.test(key)) {
    issues.push({ path: '/key', message: 'must be printable text without spaces' })
  }
  if (key !== undefined && !isWhole(key)) issues.push({ path: '/key', message: 'is not all of a key that signs' })
  if (typeof fetch !== 'function') issues.push({ path: '/fetch', message: 'must be a function' })
  if (!Number.isInteger(retries) || retries < 0)
    issues.push({ path: '/retries', message: 'must be a whole number, 0 or more' })
  if (!(retryDelayMs > 0 && Number.isFinite(retryDelayMs))) {
    issues.push({ path: '/retryDelayMs', message: 'must be a number above 0' })
  }
  if (issues.length > 0) {
    const text = issues.map(({ path, message }) => `${path} ${message}`).join('; ')
    throw new ToolError('CONFIG_INVALID', `createClient was given wrong options: ${text}.`, { details: { issues } })
  }
  return { url: url.replace(/(?<!\/)\/+$/, ''), fetch, retries, retryDelayMs, ...(key === undefined ? {} : { key }) }
}
