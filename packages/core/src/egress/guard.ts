import type { Socket } from 'node:net'
import { onAbort } from '../resilience/abort.ts'
import type { Release } from '../resilience/slots.ts'
import { type Admitted, createAdmission, createReport } from './admit.ts'
import { createConnectionSlots } from './connection-slots.ts'
import { createDialer } from './dial.ts'
import type { Egress, EgressBounds, EgressRequest, EgressResponse, EgressScope, EgressTarget } from './egress.ts'
import { type EgressOptions, settingsOf } from './options.ts'
import { createPools, noLonger } from './pools.ts'
import { refuseKnown } from './private-addresses.ts'
import { isRedirect, request } from './request.ts'
import { parseUrl, targetOfHost } from './target.ts'

/** Creates an egress guard; throws CONFIG_INVALID. It opens no connection before the first request. */
export function createEgressGuard(options: EgressOptions = {}): Egress {
  const settings = settingsOf(options)
  const report = createReport(settings.onEvent)
  const admission = createAdmission(settings, report)
  const dialer = createDialer(settings, report, () => pools.closeIdle())
  const pools = createPools(settings, dialer)
  const raw = new Map<AbortController, Admitted>()
  const places = createConnectionSlots(settings, report)
  const ports = { settings, admission, places, pools, report }

  const connect = async (asked: EgressTarget): Promise<Socket> => {
    const { host, port, tls, tunnel, signal } = asked
    signal.throwIfAborted()
    const target = targetOfHost(tls === undefined && tunnel === undefined ? 'http' : 'https', host, port)
    const admitted = admission.connection(target, asked)
    const revoke = new AbortController()
    raw.set(revoke, admitted)
    let leave: Release | undefined
    try {
      const options = { tls, tunnel, signal: AbortSignal.any([signal, revoke.signal]) }
      const { connectMs: originMs } = settings
      leave = await places.take(admitted, { tenant: asked.tenant, signal: options.signal, originMs })
      const socket = await dialer.dial(admitted, options)
      socket.once('close', leave)
      const end = (): void => void socket.destroy(revoke.signal.reason)
      socket.once('close', () => raw.delete(revoke))
      onAbort(revoke.signal, end)
      return socket
    } catch (error) {
      leave?.()
      raw.delete(revoke)
      throw error
    }
  }
  const egress: Egress = {
    request: (asked) => request(ports, asked),
    async check({ url, method = 'GET', ...scope }) {
      refuseKnown(admission.check(parseUrl(url), method.toUpperCase(), scope), report)
    },
    connect,
    fetch: (scope) => createFetch(egress, scope),
    setRules(allow) {
      admission.setRules(allow)
      pools.retire((admitted) => admission.stillAdmits(admitted, false))
      // A raw connection may carry any number of calls, so the guard closes it when it is no longer allowed.
      for (const [revoke, admitted] of raw) if (!admission.stillAdmits(admitted, true)) revoke.abort(noLonger(admitted))
    },
    async close() {
      dialer.close()
      await pools.close()
    },
  }
  return egress
}

/** Statuses that must not have a body. */
const withoutBody = new Set([204, 205, 304])

/** A `fetch` through the guard. Rejects with ToolError, or with the reason of an aborted signal. */
export function createFetch(egress: Pick<Egress, 'request'>, scope: EgressScope & EgressBounds): typeof fetch {
  return async (input, init) => {
    const url = parseUrl(input instanceof Request ? input.url : input)
    const duplex = init?.body instanceof ReadableStream ? ({ duplex: 'half' } as const) : {}
    const asked = new Request(input instanceof Request ? input : withoutUser(url), { ...init, ...duplex })
    const redirects = asked.redirect === 'follow' ? (scope.redirects ?? 0) : 0
    const body = await bodyOf(asked, init?.body ?? undefined)
    const response = await egress.request({
      ...scope,
      url,
      method: asked.method,
      headers: Object.fromEntries(asked.headers),
      ...(body === undefined ? {} : { body }),
      signal: init?.signal ?? (input instanceof Request ? input.signal : new AbortController().signal),
      redirects,
    })
    if (asked.redirect === 'error' && isRedirect(response.status)) {
      response.cancel()
      throw new TypeError('The response is a redirect, and the request has `redirect: "error"`.')
    }
    const { status, headers } = response
    const result = new Response(withoutBody.has(status) ? ended(response) : streamOf(response), { status, headers })
    Object.defineProperty(result, 'url', { value: response.url })
    Object.defineProperty(result, 'redirected', { value: response.url !== url.href })
    return result
  }
}

/** For `Request`, whose error would repeat a password; the guard checks and refuses the original URL. */
function withoutUser(url: URL): URL {
  const bare = new URL(url)
  bare.username = ''
  bare.password = ''
  return bare
}

/** Reads a body that should be empty, so that its connection can be reused. */
function ended(response: EgressResponse): null {
  response.bytes().catch(() => {})
  return null
}

/** A body of known length is sent as bytes: with Content-Length, and again after a redirect. */
async function bodyOf(asked: Request, given: unknown): Promise<EgressRequest['body']> {
  if (asked.body === null) return undefined
  if (given === undefined || given instanceof ReadableStream) return asked.body
  return new Uint8Array(await asked.arrayBuffer())
}

/** Reads on demand, and cancels the body when the stream is cancelled before it was read. */
function streamOf(response: EgressResponse): ReadableStream<Uint8Array> {
  const pieces = response.body[Symbol.asyncIterator]()
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { done, value } = await pieces.next()
        if (done === true) controller.close()
        else controller.enqueue(value)
      },
      cancel: () => response.cancel(),
    },
    { highWaterMark: 0 },
  )
}
