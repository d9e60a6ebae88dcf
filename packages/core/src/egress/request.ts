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

/** What a request goes through. */
interface RequestPorts {
  readonly settings: EgressSettings
  readonly admission: Admission
  readonly places: ConnectionSlots
  readonly pools: Pools
  readonly report: Report
}

/** Beyond this, a chain of redirects is a loop. */
const mostRedirects = 20

/** One request and the redirects it leads to; each hop passes every check anew. */
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
        // The rules may have changed during a wait, and a pool is asked for under those of now.
        const allowed = taken === leave ? admitted : admission.check(url, method, asked)
        return exchange(pools.get(allowed, undici), step)
      })
      safe = step.safe
      const { location } = response.headers
      const follow = redirects > 0 && typeof location === 'string' && isRedirect(response.status)
      if (!follow) return present(response, step, limitOf(asked, settings), changed, asked.partial)
      response.destroy()
      if (!(left > 0)) throw new ToolError('BACKEND_FAILED', `${target.origin} redirects too often.`)
      hop = reported(ports.report, asked.owner, step, () => nextHop(step, response.status, location))
    }
  } catch (error) {
    throw !safe && !signal.aborted && ToolError.is(error) ? afterChange(error) : error
  }
}

/** Gives the place back when the request does not begin; one that begins does so itself. */
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
  throw new ToolError('INPUT_INVALID', 'The HTTP method is not one.', { stage: 'execute' })
}

function limitOf({ maxBytes }: EgressRequest, { maxResponseBytes }: EgressSettings): number {
  return maxBytes !== undefined && maxBytes < maxResponseBytes ? maxBytes : maxResponseBytes
}

/** A redirect that is refused is an attempt to leave like any other. */
function reported(report: Report, owner: string, { target }: Exchange, next: () => Hop): Hop {
  try {
    return next()
  } catch (error) {
    report(owner, target, { outcome: 'refused', reason: 'its redirect is not followed' })
    throw error
  }
}

/** What a failure means when an earlier request may have changed something: no longer that nothing happened. */
function afterChange(error: ToolError): ToolError {
  if (error.effect === 'possible') return error
  const code = error.code === 'EGRESS_DENIED' || error.code === 'RESULT_TOO_LARGE' ? error.code : 'BACKEND_FAILED'
  return new ToolError(code, error.message, { cause: error, effect: 'possible', retryable: false })
}

/** One request on the way to a response. */
export interface Hop {
  readonly url: URL
  readonly method: string
  readonly headers: HeaderList
  readonly body: EgressRequest['body']
}

const redirects = new Set([301, 302, 303, 307, 308])

/** Whether a response sends the caller elsewhere. */
export function isRedirect(status: number): boolean {
  return redirects.has(status)
}

/** The next request, before its own checks; throws EGRESS_DENIED for a redirect that is not followed anywhere. */
export function nextHop(hop: Hop, status: number, location: string): Hop {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  if (/[\\\x00-\x20\x7f]/.test(location)) throw refuse('with characters that browsers and servers read differently')
  const url = parseLocation(location, hop.url)
  if (hop.url.protocol === 'https:' && url.protocol === 'http:') throw refuse('from https to http')
  const toGet = status === 303 ? hop.method !== 'HEAD' : status < 303 && hop.method === 'POST'
  const kept = toGet ? { ...hop, method: 'GET', headers: withoutBody(hop.headers), body: undefined } : hop
  if (url.origin === hop.url.origin) return again({ ...kept, url })
  if (!isSafe(kept.method) || kept.body !== undefined)
    throw refuse('of a request that changes something to another origin')
  return { ...kept, url, headers: withoutCredentials(kept.headers) }
}

/** A stream has gone out already and cannot be sent twice. */
function again(hop: Hop): Hop {
  if (hop.body === undefined || typeof hop.body === 'string' || hop.body instanceof Uint8Array) return hop
  throw new ToolError('BACKEND_FAILED', 'A redirect asks for a body again that was a stream and is gone.')
}

function parseLocation(location: string, base: URL): URL {
  const url = URL.parse(location, base.href)
  if (url === null) throw refuse('to something that is not a URL')
  return parseUrl(url)
}

function refuse(what: string): ToolError {
  return new ToolError('EGRESS_DENIED', `A redirect ${what} is not followed.`)
}
