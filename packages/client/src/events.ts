import { type CallView, type Result, type StreamEvent, ToolError } from '@gantry/contract'
import { cancelled, type Http, segment } from './http.ts'

export interface FollowOptions {
  /** Only events after this id. */
  readonly after?: number | undefined
  readonly signal?: AbortSignal | undefined
}

/** How a connection ended: the service resets an incomplete stream, and ends a complete one. */
interface Piece {
  whole: boolean
  empty: boolean
}

/** Three heartbeats of the service. */
const idleMs = 45_000
const pauseMs = 250

/**
 * The events of a call up to its end. A stream that breaks is requested again after the last event received, as long as
 * the service answers at all. When a call had ended and its stream is whole without an end event, because events are kept
 * for a shorter time than results, the end is made from the result.
 */
export async function* follow(http: Http, callId: string, options: FollowOptions): AsyncGenerator<StreamEvent, void> {
  const { after = 0, signal } = options
  const path = `/v1/calls/${segment(callId)}`
  const stop = new AbortController()
  const abort = (): void => stop.abort(signal?.reason)
  signal?.addEventListener('abort', abort)
  if (signal?.aborted) abort()
  let last = after
  let ended: CallView | undefined
  try {
    while (true) {
      const piece: Piece = { whole: false, empty: true }
      for await (const event of readPiece(http, path, last, stop.signal, piece)) {
        if (event.id <= last) continue
        piece.empty = false
        last = event.id
        yield event
        if (event.kind === 'done' || event.kind === 'error') return
      }
      if (ended !== undefined && piece.whole && piece.empty) {
        yield endOf(ended, last)
        return
      }
      const { body: view } = await http.json<CallView>({ path, signal: stop.signal })
      ended = view.result === undefined ? undefined : view
      if (piece.empty) await http.pause(pauseMs, stop.signal)
    }
  } finally {
    signal?.removeEventListener('abort', abort)
    stop.abort()
  }
}

/** The events of one connection, however it ends. */
async function* readPiece(
  http: Http,
  path: string,
  last: number,
  signal: AbortSignal,
  piece: Piece,
): AsyncGenerator<StreamEvent, void> {
  const headers = { accept: 'text/event-stream', ...(last === 0 ? {} : { 'last-event-id': String(last) }) }
  const { body } = await http.open({ path: `${path}/events`, headers, signal })
  try {
    if (body !== null) for await (const { data } of readEvents(body, { idleMs })) yield readEvent(data)
    piece.whole = true
  } catch (error) {
    if (signal.aborted) throw cancelled(signal)
    // A broken transfer is requested again; a wrong response would be wrong again.
    if (ToolError.is(error)) throw error
  }
}

function readEvent(data: string): StreamEvent {
  try {
    return JSON.parse(data)
  } catch (cause) {
    throw new ToolError('SERVICE_UNAVAILABLE', 'The service sent an event that is not JSON.', { cause })
  }
}

function endOf({ callId, result }: CallView, last: number): StreamEvent {
  const common = { id: last + 1, callId, result: result as Result }
  return result?.error === undefined ? { kind: 'done', ...common } : { kind: 'error', error: result.error, ...common }
}

/** One server-sent event. */
export interface ServerEvent {
  readonly id?: string
  readonly event: string
  readonly data: string
}

interface ReadOptions {
  /** A stream without data for longer is taken for dead; heartbeats are data. */
  readonly idleMs: number
}

/** Far more than an event of a service may have. */
const longestEvent = 33_554_432

/**
 * Reads server-sent events as they come, however they are cut into pieces. Comments are left out, and so is what comes
 * behind the last empty line, because it is not whole. Leaving the loop closes the stream.
 */
export async function* readEvents(
  body: ReadableStream<Uint8Array>,
  { idleMs }: ReadOptions,
): AsyncGenerator<ServerEvent> {
  const reader = body.getReader()
  const decoder = new TextDecoder()
  const splitter = createSplitter()
  let lines: string[] = []
  let length = 0
  try {
    while (true) {
      const { value, done } = await within(reader.read(), idleMs)
      if (done) return
      for (const line of splitter.push(decoder.decode(value, { stream: true }))) {
        length += line.length
        if (line !== '') lines.push(line)
        else {
          const event = eventOf(lines)
          lines = []
          length = 0
          if (event !== undefined) yield event
        }
      }
      if (length + splitter.rest > longestEvent) throw new Error('An event is too long.')
    }
  } finally {
    await reader.cancel().catch(() => undefined)
  }
}

/** Cuts a text that comes in pieces into lines, which end with CR, LF or both; each piece is looked at once. */
function createSplitter(): { push(piece: string): readonly string[]; readonly rest: number } {
  let rest = ''
  let held = ''
  return {
    push(piece) {
      const text = held + piece
      // A CR at the end may be half of both.
      held = text.endsWith('\r') ? '\r' : ''
      const [first = '', ...others] = text.slice(0, text.length - held.length).split(/\r\n|\r|\n/)
      const lines = [rest + first, ...others]
      rest = lines.pop() ?? ''
      return lines
    },
    get rest() {
      return rest.length
    },
  }
}

function eventOf(lines: readonly string[]): ServerEvent | undefined {
  let [id, event]: [string | undefined, string] = [undefined, 'message']
  const data: string[] = []
  for (const line of lines) {
    const [, name = '', value = ''] = /^([^:]*)(?:: ?)?(.*)$/s.exec(line) ?? []
    if (name === 'data') data.push(value)
    else if (name === 'event') event = value
    else if (name === 'id' && !value.includes('\u0000')) id = value
  }
  if (data.length === 0) return undefined
  return { event, data: data.join('\n'), ...(id === undefined ? {} : { id }) }
}

async function within<T>(work: Promise<T>, ms: number): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`The event stream sent no data for ${ms} ms.`)), ms)
  })
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}
