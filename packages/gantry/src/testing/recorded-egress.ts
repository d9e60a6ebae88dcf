import { ToolError } from '@gantry/contract'
import { createEgress, type Egress, type EgressOptions, type EgressRequest, type EgressResponse } from '@gantry/core'
import type { Received, Recorder, Sent } from './recorded-http.ts'

/** Most bytes of a body that is sent in a test. */
const mostBytes = 16_777_216

/**
 * An egress guard whose responses are recorded. The rules of `options` are checked as in production; only mode `record`
 * resolves names and connects. Raw connections are refused.
 */
export function recordedEgress(recorder: Recorder, options: EgressOptions): Egress {
  const guard = createEgress(options)
  const request = async (asked: EgressRequest): Promise<EgressResponse> => {
    await guard.check(asked)
    const body = await wholeOf(asked.body)
    const sent = sentOf(asked, body)
    const received = await recorder.answer(sent, async () => {
      const { body: _stream, ...rest } = asked
      return receivedOf(await guard.request(body.length === 0 ? rest : { ...rest, body }))
    })
    asked.signal.throwIfAborted()
    return present(received, asked)
  }
  const egress: Egress = {
    request,
    check: guard.check,
    async connect({ host, port }) {
      const message = `A test executor opens no raw connection (${host}:${port}); only HTTP requests are recorded.`
      throw new ToolError('EGRESS_DENIED', message, { stage: 'execute' })
    },
    fetch: (scope) => async (input, init) => {
      const { createFetch } = await import('@gantry/core/internal/egress/guard')
      return createFetch(egress, scope)(input, init)
    },
    setRules: guard.setRules,
    async close() {
      recorder.close()
      await guard.close()
    },
  }
  return egress
}

function sentOf({ url, method = 'GET', headers = {} }: EgressRequest, body: Uint8Array): Sent {
  const named = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value])
  return { method: method.toUpperCase(), url: String(url), headers: Object.fromEntries(named), body }
}

async function wholeOf(body: EgressRequest['body']): Promise<Uint8Array> {
  if (body === undefined) return new Uint8Array()
  if (typeof body === 'string') return Buffer.from(body)
  if (body instanceof Uint8Array) return body
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of body) {
    chunks.push(chunk)
    bytes += chunk.length
    if (bytes > mostBytes) throw new ToolError('LIMIT_EXCEEDED', `A recorded body has ${mostBytes} bytes at most.`)
  }
  return Buffer.concat(chunks)
}

async function receivedOf(response: EgressResponse): Promise<Received> {
  const { status, headers, url } = response
  return { status, headers: Object.fromEntries(headers), body: await response.bytes(), url }
}

/** A recorded response in the form of the guard, with the size limit of the request. */
function present({ status, headers: given, body, url }: Received, asked: EgressRequest): EgressResponse {
  const headers = new Headers({ ...given })
  const most = asked.partial === true ? Number.POSITIVE_INFINITY : (asked.maxBytes ?? Number.POSITIVE_INFINITY)
  const bytes = async (): Promise<Uint8Array> => {
    if (body.length <= most) return body
    throw new ToolError('RESULT_TOO_LARGE', `The response has more than ${most} bytes.`, { stage: 'execute' })
  }
  return {
    status,
    headers,
    contentType: headers.get('content-type') ?? undefined,
    changed: false,
    url,
    body: piecesOf(bytes),
    bytes,
    text: async () => new TextDecoder().decode(await bytes()),
    cancel() {},
  }
}

async function* piecesOf(read: () => Promise<Uint8Array>): AsyncGenerator<Uint8Array, void> {
  const bytes = await read()
  if (bytes.length > 0) yield bytes
}
