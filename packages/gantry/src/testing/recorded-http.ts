import { type Issue, ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { isFunction } from '@gantry/core/internal/json/plain'
import { oneOf, text } from '@gantry/core/internal/options/option'
import { checkOptions, optionsCheck } from '@gantry/core/internal/options/options'
import { bytesOf, checkExchanges, type RecordedExchange, readRecording, writeRecording } from './recorded-exchange.ts'
import { createSecretFilter, isForm, type SecretFilter } from './without-secrets.ts'

/** A file of exchanges: `replay` answers from it, `record` sends requests to the network and replaces it. */
export interface RecordingOptions {
  readonly file: string
  /** `replay` when absent. */
  readonly mode?: 'replay' | 'record'
}

/** A request of a test, without secrets, and where its response came from. */
export interface SeenRequest {
  readonly method: string
  readonly url: string
  readonly answered: 'recorded' | 'network' | 'nothing'
}

/**
 * Recorded HTTP of one test.
 * - Errors: a request without a record rejects with EGRESS_DENIED, and the error names it.
 * - Ownership: a test executor closes the recording that it was given; a recording used alone is closed by the test.
 */
export interface RecordedHttp {
  /** For a tool that is given its `fetch`; the backends of a test executor need none. */
  readonly fetch: typeof fetch
  /** Every request so far, in order. */
  readonly requests: readonly SeenRequest[]
  /** Exchanges that have answered no request. */
  readonly unused: readonly RecordedExchange[]
  /** Keeps a value out of the recording and of error messages; requests that differ only in it are equal. */
  conceal(value: string): void
  /** Writes the file in mode `record`, unless no request was made. */
  close(): void
}

/** A request with its whole body; header names are in lower case. */
export interface Sent {
  readonly method: string
  readonly url: string
  readonly headers: { readonly [name: string]: string }
  readonly body: Uint8Array
}

export interface Received {
  readonly status: number
  readonly headers: { readonly [name: string]: string }
  readonly body: Uint8Array
  readonly url: string
}

/** A recording as the egress of a test executor uses it. */
export interface Recorder extends RecordedHttp {
  /** The response to a request; `send` is called in mode `record` only. */
  answer(asked: Sent, send: () => Promise<Received>): Promise<Received>
}

/** Recorded HTTP of a list of exchanges, or of a file. Throws CONFIG_INVALID when they have another form. */
export function recordedHttp(source: readonly RecordedExchange[] | RecordingOptions): RecordedHttp {
  return createRecorder(source)
}

/** Whether a value is what `recordedHttp` returns. */
export function isRecorder(value: unknown): value is Recorder {
  return isObject(value) && isFunction(value.answer) && isFunction(value.conceal)
}

export function createRecorder(source: readonly RecordedExchange[] | RecordingOptions): Recorder {
  const { exchanges, recordTo } = opened(source)
  const filter = createSecretFilter()
  const left = new Set(exchanges)
  const unused = new Set(exchanges)
  const made: { readonly asked: Sent; readonly received: Received }[] = []
  const requests: SeenRequest[] = []

  const take = (asked: Sent): RecordedExchange | undefined => {
    const form = isForm(asked.headers)
    const wanted = identityOf(asked, filter)
    for (const exchange of left) {
      const { method = 'GET', url, body } = exchange.request
      if (filter.identity({ method, url, body }, form) !== wanted) continue
      if (exchange.repeat !== true) left.delete(exchange)
      unused.delete(exchange)
      return exchange
    }
    return undefined
  }
  const note = ({ method, url }: Sent, answered: SeenRequest['answered']): void =>
    void requests.push({ method, url: filter.url(url), answered })
  const record = async (asked: Sent, send: () => Promise<Received>): Promise<Received> => {
    filter.concealSent(asked)
    const received = await send()
    filter.concealReceived(received)
    made.push({ asked, received })
    note(asked, 'network')
    return received
  }
  const replay = (asked: Sent): Received => {
    const found = take(asked)
    note(asked, found === undefined ? 'nothing' : 'recorded')
    if (found === undefined) throw unrecorded(asked, exchanges, filter)
    const { status = 200, headers = {}, body, url = asked.url } = found.response
    const type = typeof body === 'object' && 'json' in body ? { 'content-type': 'application/json' } : {}
    const names = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value])
    return { status, headers: { ...type, ...Object.fromEntries(names) }, body: bytesOf(body), url }
  }
  const answer: Recorder['answer'] = async (asked, send) =>
    recordTo === undefined ? replay(asked) : record(asked, send)
  return {
    requests,
    get unused() {
      return [...unused]
    },
    conceal: filter.conceal,
    answer,
    fetch: async (input, init) => {
      const request = new Request(input, init)
      const body = new Uint8Array(await request.clone().arrayBuffer())
      const { method, url, headers } = request
      const asked = { method, url, headers: Object.fromEntries(headers), body }
      return responseOf(await answer(asked, async () => receivedOf(await fetch(request))))
    },
    close() {
      // Secrets are taken out here, because only now all of them are known.
      const list = made.splice(0).map(({ asked, received }) => filter.exchange(asked, received))
      if (recordTo !== undefined && list.length > 0) writeRecording(recordTo, list)
    },
  }
}

interface Opened {
  readonly exchanges: readonly RecordedExchange[]
  /** The file that is written in mode `record`. */
  readonly recordTo?: string
}

const recordingOptions = optionsCheck<RecordingOptions>({
  members: { file: text(), mode: oneOf('replay', 'record') },
  required: ['file'],
  noun: 'an option of a recording',
})

function opened(source: readonly RecordedExchange[] | RecordingOptions): Opened {
  if ('length' in source) {
    checkExchanges(source)
    return { exchanges: source }
  }
  checkOptions('options of a recording', recordingOptions, source)
  const { file, mode } = source
  return mode === 'record' ? { exchanges: [], recordTo: file } : { exchanges: readRecording(file) }
}

function identityOf({ method, url, headers, body }: Sent, filter: SecretFilter): string {
  return filter.identity({ method, url, body: asBody(body) }, isForm(headers))
}

function asBody(bytes: Uint8Array): { readonly base64: string } | undefined {
  return bytes.length === 0 ? undefined : { base64: Buffer.from(bytes).toString('base64') }
}

const mostListed = 5
const longest = 300

function unrecorded(asked: Sent, exchanges: readonly RecordedExchange[], filter: SecretFilter): ToolError {
  const wanted = identityOf(asked, filter).trimEnd()
  const known = exchanges.map(({ request: { method = 'GET', url, body } }) =>
    filter.identity({ method, url, body }, isForm(asked.headers)).trimEnd(),
  )
  const path = `${asked.method} ${filter.url(asked.url)}`.split('?', 1)[0] ?? ''
  const near = known.toSorted((one, other) => Number(other.startsWith(path)) - Number(one.startsWith(path)))
  const list = near.slice(0, mostListed).map((one) => `\n  ${shortened(one)}`)
  const spent = known.includes(wanted)
    ? ' Its records have answered earlier requests; `repeat: true` lets one answer any number.'
    : ''
  const recorded = known.length === 0 ? ' There are no records.' : ` Recorded:${list.join('')}`
  const issues: Issue[] = [{ path: '/http', message: `has no record of ${shortened(wanted)}` }]
  return new ToolError(
    'EGRESS_DENIED',
    `No response is recorded for ${shortened(wanted)}; record it with mode: 'record', or add it to the list.${spent}${recorded}`,
    { details: { issues }, stage: 'execute' },
  )
}

function shortened(line: string): string {
  return line.length <= longest ? line : `${line.slice(0, longest)}…`
}

/** Statuses that must not have a body. */
const withoutBody = new Set([204, 205, 304])

function responseOf({ status, headers, body, url }: Received): Response {
  const response = new Response(withoutBody.has(status) ? null : Buffer.from(body), { status, headers })
  return Object.defineProperty(response, 'url', { value: url })
}

async function receivedOf(response: Response): Promise<Received> {
  const body = new Uint8Array(await response.arrayBuffer())
  return { status: response.status, headers: Object.fromEntries(response.headers), body, url: response.url }
}
