import { PassThrough, type Readable, type Writable } from 'node:stream'
import type { TestContext } from 'node:test'
import type { Answered } from './mcp.fixture.ts'

/** The streams of a server over stdio. */
export interface StdioEnds {
  readonly input: Readable
  readonly output: Writable
  readonly note: (text: string) => void
  readonly signal: AbortSignal
}

export interface LineClient {
  /** Writes one line unchanged. */
  write(line: string): void
  send(message: object): void
  /** The next message that has this id; null is the id of a message that answers no request. */
  next(id: unknown): Promise<Answered>
  request(method: string, params?: object): Promise<Answered>
  /** Messages that no `next` has returned. */
  readonly left: readonly Answered[]
  /** Opens a session of 2025-11-25. */
  open(): Promise<Answered>
}

/** A client over lines of JSON; its server ends with the test. */
export function lineClient(t: TestContext, serve: (ends: StdioEnds) => Promise<void>): LineClient {
  const [input, output, stop] = [new PassThrough(), new PassThrough(), new AbortController()]
  const served = serve({ input, output, note: () => undefined, signal: stop.signal })
  t.after(async () => {
    stop.abort()
    await served
  })
  const [come, waiting] = [[] as Answered[], new Map<unknown, (message: Answered) => void>()]
  let rest = ''
  output.setEncoding('utf8').on('data', (text: string) => {
    const lines = (rest + text).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) {
      const message = JSON.parse(line) as Answered
      const take = waiting.get(message.id)
      waiting.delete(message.id)
      if (take === undefined) come.push(message)
      else take(message)
    }
  })
  const next: LineClient['next'] = (id) => {
    const at = come.findIndex((message) => message.id === id)
    if (at !== -1) return Promise.resolve(come.splice(at, 1)[0] as Answered)
    return new Promise((resolve) => waiting.set(id, resolve))
  }
  const write = (line: string): void => void input.write(`${line}\n`)
  const send = (message: object): void => write(JSON.stringify({ jsonrpc: '2.0', ...message }))
  let last = 0
  const request: LineClient['request'] = (method, params = {}) => {
    last += 1
    send({ id: `r${last}`, method, params })
    return next(`r${last}`)
  }
  return {
    write,
    send,
    next,
    request,
    left: come,
    async open() {
      const clientInfo = { name: 'test', version: '1' }
      const answer = await request('initialize', { protocolVersion: '2025-11-25', clientInfo, capabilities: {} })
      send({ method: 'notifications/initialized' })
      return answer
    },
  }
}

/** Calls of `demo__echo` that are JSON, and refused all the same, with the reason. */
export const refusedCalls: readonly (readonly [id: number, line: string, reason: RegExp])[] = (
  [
    ['{"__proto__":1}', /\/params\/arguments\/value\/__proto__ is a key that is not allowed/],
    ['"\\ud800"', /\/params\/arguments\/value holds half of a character pair/],
    [`${'['.repeat(5_000)}${']'.repeat(5_000)}`, /is nested deeper than 72 levels/],
    ['12345678901234567890', /a number that would lose digits/],
  ] as const
).map(([value, reason], id) => [
  id,
  // The id comes last, as some client SDKs write it.
  `{"method":"tools/call","params":{"name":"demo__echo","arguments":{"value":${value}}},"jsonrpc":"2.0","id":${id}}`,
  reason,
])
