import { ToolError } from '@gantry/contract'
import type { Release } from '../resilience/slots.ts'
import type { Admission, Report } from './admit.ts'
import type { ConnectionSlots } from './connection-slots.ts'
import type { EgressRequest, EgressResponse } from './egress.ts'
import { type Exchange, exchange, isSafe } from './exchange.ts'
import { type HeaderList, requestHeaders, withoutBody, withoutCredentials } from './headers.ts'
import type { EgressSettings } from './options.ts'
import type { Pools } from './pools.ts'
import { present } from './response.ts'
import { parseUrl } from './target.ts'

/** The components that a request passes. */
interface RequestPorts {
  readonly settings: EgressSettings
  readonly admission: Admission
  readonly places: ConnectionSlots
  readonly pools: Pools
  readonly report: Report
}

/** Most redirects of any request; a longer chain counts as a loop. */
const mostRedirects = 20

/** Sends a request and follows its redirects; each hop passes every check. */
export async function request(ports: RequestPorts, asked: EgressRequest): Promise<EgressResponse> {
  const { settings, admission, places, pools } = ports
  const { signal, redirects = 0, headersMs = settings.headersMs, idleMs = settings.idleMs } = asked
  let hop = firstHop(asked)
  let safe = true
  const loading = pools.load()
  const undici = loading instanceof Promise ? await loading : loading
  signal.throwIfAborted()
  try {
    for (let left = Math.min(redirects, mostRedirects); ; left -= 1) {
      const changed = !safe
      const admitted = admission.request(hop.url, hop.method, asked)
      const { target } = admitted
      const taken = places.take(admitted, asked)
      const leave = taken instanceof Promise ? await taken : taken
      const { url, method, headers, body } = hop
      const step: Exchange = {
        url,
        method,
        headers,
        body,
        target,
        signal,
        headersMs,
        idleMs,
        safe: safe && isSafe(method),
        leave,
      }
      const response = await orLeave(leave, () => {
        // The rules may have changed during the wait for a slot, so the request is checked again.
        const allowed = taken === leave ? admitted : admission.check(url, method, asked)
        return exchange(pools.get(allowed, undici), step)
      })
      safe = step.safe
      const { location } = response.headers
      const follow = redirects > 0 && typeof location === 'string' && isRedirect(response.status)
      if (!follow) return present(response, step, limitOf(asked, settings), changed, asked.partial)
      response.destroy()
      if (!(left > 0)) throw new ToolError('BACKEND_FAILED', `${target.origin} sent more redirects than allowed.`)
      hop = reported(ports.report, asked.owner, step, () => nextHop(step, response.status, location))
    }
  } catch (error) {
    throw !safe && !signal.aborted && ToolError.is(error) ? afterChange(error) : error
  }
}

/** Releases the slot when the request does not start; a started request releases it itself. */
function orLeave<T>(leave: Release, begin: () => T): T {
  try {
    return begin()
  } catch (error) {
    leave()
    throw error
  }
}

function firstHop({ url, method = 'GET', headers, body }: EgressRequest): Hop {
  const verb = usualMethods.has(method) ? method : verbOf(method)
  return { url: parseUrl(url), method: verb, headers: requestHeaders(headers), body }
}

const usualMethods: ReadonlySet<string> = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'])

function verbOf(method: string): string {
  const verb = method.toUpperCase()
  if (/^[A-Z][A-Z-]{0,30}$/.test(verb)) return verb
  throw new ToolError('INPUT_INVALID', 'The HTTP method is not a valid token.', { stage: 'execute' })
}

function limitOf({ maxBytes }: EgressRequest, { maxResponseBytes }: EgressSettings): number {
  return maxBytes !== undefined && maxBytes < maxResponseBytes ? maxBytes : maxResponseBytes
}

/** Reports a refused redirect like any other refusal. */
function reported(report: Report, owner: string, { target }: Exchange, next: () => Hop): Hop {
  try {
    return next()
  } catch (error) {
    report(owner, target, { outcome: 'refused', reason: 'redirect not followed' })
    throw error
  }
}

/** The error of a redirect chain whose first request may have had a side effect: effect `possible`, not retryable. */
function afterChange(error: ToolError): ToolError {
  if (error.effect === 'possible') return error
  const code = error.code === 'EGRESS_DENIED' || error.code === 'RESULT_TOO_LARGE' ? error.code : 'BACKEND_FAILED'
  return new ToolError(code, error.message, { cause: error, effect: 'possible', retryable: false })
}

/** One request of a redirect chain. */
export interface Hop {
  readonly url: URL
  readonly method: string
  readonly headers: HeaderList
  readonly body: EgressRequest['body']
}

const redirects = new Set([301, 302, 303, 307, 308])

/** Whether a status is a redirect. */
export function isRedirect(status: number): boolean {
  return redirects.has(status)
}

/** The next request, not yet checked against the rules. Throws EGRESS_DENIED for a redirect that is never followed. */
export function nextHop(hop: Hop, status: number, location: string): Hop {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the check is for control characters
  if (/[\\\x00-\x20\x7f]/.test(location)) throw refuse('with characters that browsers and servers read differently')
  const url = parseLocation(location, hop.url)
  if (hop.url.protocol === 'https:' && url.protocol === 'http:') throw refuse('from https to http')
  const toGet = status === 303 ? hop.method !== 'HEAD' : status < 303 && hop.method === 'POST'
  const kept = toGet ? { ...hop, method: 'GET', headers: withoutBody(hop.headers), body: undefined } : hop
  if (url.origin === hop.url.origin) return again({ ...kept, url })
  if (!isSafe(kept.method) || kept.body !== undefined)
    throw refuse('to another origin, for a request that may have a side effect,')
  return { ...kept, url, headers: withoutCredentials(kept.headers) }
}

/** A stream body is consumed by the first request and cannot be sent again. */
function again(hop: Hop): Hop {
  if (hop.body === undefined || typeof hop.body === 'string' || hop.body instanceof Uint8Array) return hop
  throw new ToolError(
    'BACKEND_FAILED',
    'A redirect asks for the request body again, but the body was a stream that is already consumed.',
  )
}

function parseLocation(location: string, base: URL): URL {
  const url = URL.parse(location, base.href)
  if (url === null) throw refuse('to an invalid URL')
  return parseUrl(url)
}

function refuse(what: string): ToolError {
  return new ToolError('EGRESS_DENIED', `A redirect ${what} is not followed.`)
}
