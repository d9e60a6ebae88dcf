/** One server-sent event. */
export interface ServerEvent {
  readonly id?: string
  readonly event: string
  readonly data: string
}

export interface ReadOptions {
  /** A stream that is silent for longer is taken for dead; heartbeats are not silence. */
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
    timer = setTimeout(() => reject(new Error(`Nothing came for ${ms} ms.`)), ms)
  })
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}
