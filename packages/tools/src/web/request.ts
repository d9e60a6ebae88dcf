import { type Json, type JsonObject, ToolError } from '@gantry/contract'
import type { BackendContext } from '@gantry/core/internal/backends/backend'
import { fillHeader, headerValueFault } from '@gantry/core/internal/backends/http/headers'
import { badArgument } from '@gantry/core/internal/backends/http/parameters'
import {
  followsRedirects,
  isFramingHeader,
  isHeaderName,
  isSensitiveHeader,
} from '@gantry/core/internal/egress/headers'
import { parseUrl, type Target, targetOf } from '@gantry/core/internal/egress/target'
import { fetchSecrets, fillSecrets, secretNames } from '@gantry/core/internal/ids/secret-reference'
import type { WebPlan } from './binding.ts'

/** How an answer is shown. */
export type Shown = 'auto' | 'text' | 'html' | 'json' | 'base64' | 'artifact'

/** Arguments of a fetch, as its schema lets them through. */
export interface FetchArgs extends JsonObject {
  readonly url: string
}

/** A request without its secrets, and which it needs. */
export interface Draft {
  readonly url: URL
  readonly method: string
  readonly headers: readonly (readonly [name: string, value: string])[]
  readonly query: readonly (readonly [name: string, value: string])[]
  readonly body: string | Uint8Array | undefined
  readonly secrets: readonly string[]
}

/** A request for egress, and the values of the secrets in it. */
export interface Sealed {
  readonly url: URL
  readonly method: string
  readonly headers: { readonly [name: string]: string }
  readonly body?: string | Uint8Array
  readonly secrets: readonly string[]
}

/** Headers that say who sends or how the body is read, and which a caller may set all the same. */
const open: ReadonlySet<string> = new Set(['authorization', 'cookie', 'content-type', 'idempotency-key'])

/** Headers that ask for a part of the answer: of a secret that the server repeats they would give the halves. */
const partial: ReadonlySet<string> = new Set(['range', 'if-range'])

/**
 * Makes a request of arguments, or throws INPUT_INVALID with the path. A reference to a secret counts in the values of
 * headers and of the query, where it is inserted later, and is refused when the secret may not go to that origin: a
 * caller cannot have a secret sent to an origin of its choice, nor learn whether the secret exists.
 */
export function draftRequest(plan: WebPlan, args: JsonObject): Draft {
  const url = parseUrl(String(args.url))
  const method = String(args.method ?? 'GET')
  if (!plan.methods.includes(method)) throw badArgument('method', `must be one of ${plan.methods.join(', ')} here`)
  const { data, mediaType } = bodyOf(args)
  if (data !== undefined && (method === 'GET' || method === 'HEAD')) {
    throw badArgument('method', `is ${method}, which has no body; use POST`)
  }
  const headers = headersOf(args.headers, mediaType)
  const query = Object.entries(textsOf(args.query))
  const secrets = secretNames([...headers, ...query].map(([, value]) => value))
  if (secrets.length > 0) refuseUngranted(plan, secrets, targetOf(url))
  for (const [name, value] of headers) {
    if (secrets.length > 0 && partial.has(name)) throw badHeader(name, 'cannot be set where a secret is sent')
    if (!followsRedirects(name) || secretNames([value]).length === 0) continue
    throw badArgument('headers', `puts a secret into ${name}, which goes along with redirects to others`)
  }
  return { url, method, headers, query, body: data, secrets }
}

/** Resolves secret references, each once; the values are redacted from all output of the call. */
export async function sealRequest({ secrets: names, ...draft }: Draft, context: BackendContext): Promise<Sealed> {
  const secrets = await fetchSecrets(names, context.secret)
  const url = new URL(draft.url)
  for (const [name, value] of draft.query) url.searchParams.append(name, fillSecrets(value, secrets))
  const headers: { [name: string]: string } = {}
  for (const [name, value] of draft.headers) headers[name] = fillHeader(name, value, secrets)
  const { traceparent } = context
  if (traceparent !== undefined && headers.traceparent === undefined) headers.traceparent = traceparent
  const { method, body } = draft
  return { url, method, headers, ...(body === undefined ? {} : { body }), secrets: [...secrets.values()] }
}

function refuseUngranted(plan: WebPlan, secrets: readonly string[], target: Target | undefined): void {
  const refused = secrets.find((name) => target === undefined || !plan.grants(name, target))
  if (refused === undefined) return
  const message = `The secret ${refused} may not be sent to ${target?.origin ?? 'this URL'} by http:fetch. Grant it with httpFetch.secrets.`
  throw new ToolError('DENIED', message, { stage: 'execute' })
}

function headersOf(given: Json | undefined, mediaType: string | undefined): [string, string][] {
  const headers = new Map<string, string>(mediaType === undefined ? [] : [['content-type', mediaType]])
  const seen = new Set<string>()
  for (const [name, value] of Object.entries(textsOf(given))) {
    const lower = name.toLowerCase()
    const fault = seen.has(lower) ? 'is there twice' : headerFault(lower, value)
    if (fault !== undefined) throw badHeader(name, fault)
    seen.add(lower)
    headers.set(lower, value)
  }
  return [...headers]
}

function headerFault(name: string, value: string): string | undefined {
  if (!isHeaderName(name)) return 'is not the name of a header'
  if (isFramingHeader(name)) return 'belongs to the connection and cannot be set'
  if (isSensitiveHeader(name) && !open.has(name)) return 'is not for callers to set'
  return headerValueFault(value)
}

/** The name may be any text, so it is truncated and escaped; the value is never shown. */
function badHeader(name: string, message: string): ToolError {
  const shown = name.slice(0, 100).replace(/[^\x21-\x7e]/g, '?')
  const issue = { path: '/headers', message: `${shown} ${message}` }
  return new ToolError('INPUT_INVALID', `The header ${shown} ${message}.`, { details: { issues: [issue] } })
}

function textsOf(value: Json | undefined): { readonly [name: string]: string } {
  return (value ?? {}) as { readonly [name: string]: string }
}

/** At most one of the three ways to write a body. */
function bodyOf(args: JsonObject): { readonly data?: string | Uint8Array; readonly mediaType?: string } {
  const given = ['body', 'json', 'base64'].filter((name) => args[name] !== undefined)
  if (given.length > 1) throw badArgument(given[1] ?? '', `cannot be combined with ${given[0]}; give one body`)
  if (args.body !== undefined) return { data: String(args.body), mediaType: 'text/plain; charset=utf-8' }
  if (args.json !== undefined) return { data: JSON.stringify(args.json), mediaType: 'application/json' }
  if (args.base64 === undefined) return {}
  return { data: Buffer.from(String(args.base64), 'base64'), mediaType: 'application/octet-stream' }
}
