import type { Egress, EgressBounds, EgressRequest, EgressResponse, EgressScope } from './egress.ts'
import { isRedirect } from './redirect.ts'
import { parseUrl } from './target.ts'

/** Statuses that the standard allows no body. */
const withoutBody = new Set([204, 205, 304])

/** A `fetch` through the guard. It rejects with ToolError, and with the reason of the signal when that is aborted. */
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
      throw new TypeError('The response is a redirect, and redirects were not wanted.')
    }
    const { status, headers } = response
    const result = new Response(withoutBody.has(status) ? ended(response) : streamOf(response), { status, headers })
    Object.defineProperty(result, 'url', { value: response.url })
    Object.defineProperty(result, 'redirected', { value: response.url !== url.href })
    return result
  }
}

/** For `Request`, which would repeat a password in its error; the guard refuses the URL as it was given. */
function withoutUser(url: URL): URL {
  const bare = new URL(url)
  bare.username = ''
  bare.password = ''
  return bare
}

/** Reads a body that should be empty, so that its connection can be used again. */
function ended(response: EgressResponse): null {
  response.bytes().catch(() => {})
  return null
}

/** Whatever has an end that is known is sent as bytes: with a length, and again if a redirect asks for it. */
async function bodyOf(asked: Request, given: unknown): Promise<EgressRequest['body']> {
  if (asked.body === null) return undefined
  if (given === undefined || given instanceof ReadableStream) return asked.body
  return new Uint8Array(await asked.arrayBuffer())
}

/** Reads when it is asked to, and lets go of a body that is cancelled before it was read. */
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
