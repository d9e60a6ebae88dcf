import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'

/** A server that speaks the protocol by hand, well or badly, as its first argument says. */
const mode = process.argv[2] ?? 'plain'

interface Message {
  readonly id?: number | string
  readonly method?: string
  readonly params?: {
    readonly name?: string
    readonly cursor?: string
    readonly arguments?: Record<string, unknown>
    readonly _meta?: Record<string, unknown>
    readonly requestId?: number
  }
}

const send = (message: object): boolean => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)
const tool = (name: string, more: object = {}): object => ({
  name,
  description: `The tool ${name}.`,
  inputSchema: { type: 'object' },
  ...more,
})
const text = (value: string): object => ({ content: [{ type: 'text', text: value }] })
const deep = (): object => {
  let value: object = {}
  for (let level = 0; level < 1_000; level++) value = { value }
  return value
}
const waiting = new Set<number | string>()
let lists = 0

const tools: { readonly [mode: string]: (cursor: string | undefined) => object } = {
  pages: (cursor) => {
    const page = Number(cursor ?? 0)
    return { tools: [tool(`tool-${page}`)], ...(page < 4 ? { nextCursor: String(page + 1) } : {}) }
  },
  'same-cursor': () => ({ tools: [tool('again')], nextCursor: 'again' }),
  'endless-pages': (cursor) => ({ tools: [], nextCursor: String(Number(cursor ?? 0) + 1) }),
  many: () => ({ tools: Array.from({ length: 1_200 }, (_, index) => tool(`tool-${index}`)) }),
  strange: () => ({
    tools: [
      tool('good'),
      tool('with/slash and space'),
      tool('GOOD'),
      tool(''),
      tool('no-schema', { inputSchema: 'none' }),
      tool('deep', { inputSchema: { type: 'object', deep: deep() } }),
      tool('silent', { description: '' }),
      tool('wordy', { description: 'x'.repeat(20_000) }),
      tool('liar', {
        annotations: { readOnlyHint: true, idempotentHint: true, title: 'A\u202eB' },
        icons: [
          { src: 'javascript:alert(1)' },
          { src: 'https://example.com/a.png', sizes: ['16x16'] },
          { src: 'file:///etc/passwd' },
        ],
      }),
      7,
    ],
  }),
  changing: () => {
    lists += 1
    return { tools: lists === 1 ? [tool('first')] : [tool('first', { description: 'It changed.' }), tool('second')] }
  },
  'list-loop': () => {
    lists += 1
    setImmediate(() => send({ method: 'notifications/tools/list_changed' }))
    return { tools: [tool(`lists-${lists > 1 ? 'more' : 'one'}`), tool('count')] }
  },
}

function list(cursor: string | undefined): object {
  return (
    tools[mode]?.(cursor) ?? {
      tools: ['add', 'fail', 'wait', 'die', 'env', 'meta', 'bang', 'log', 'ask', 'error-result', 'pid'].map((name) =>
        tool(name),
      ),
    }
  )
}

const calls: { readonly [name: string]: (id: number | string, params: NonNullable<Message['params']>) => unknown } = {
  add: (id, { arguments: { a, b } = {} }) => {
    const sum = { result: Number(a) + Number(b) }
    if (mode === 'wrong-id') send({ id: 4_711, result: text('not yours') })
    if (mode === 'wrong-id') send({ id: 'a', result: text('not yours either') })
    if (mode === 'garbage') process.stdout.write('debug: not JSON\n{"jsonrpc":"1.0"}\n\n[1,2]\n"text"\n')
    if (mode === 'storm') for (let n = 0; n < 20_000; n++) send({ method: 'notifications/tools/list_changed' })
    if (mode === 'noise')
      for (let n = 0; n < 3_000; n++) process.stderr.write(`line ${n} \u001b[31mred ${process.env.TOKEN}\n`)
    send({ id, result: { ...text(JSON.stringify(sum)), structuredContent: sum } })
  },
  count: (id) => send({ id, result: text(String(lists)) }),
  fail: (id) => send({ id, error: { code: -32_602, message: 'it broke\u001b[2J' } }),
  wait: (id, { _meta }) => {
    waiting.add(id)
    send({ method: 'notifications/progress', params: { progressToken: _meta?.progressToken, progress: 0 } })
  },
  die: () => {
    process.stderr.write('about to die of \u0007 boredom\n')
    process.exitCode = 3
    process.stdin.destroy()
    setTimeout(() => process.exit(3), 20)
  },
  pid: (id) => send({ id, result: text(JSON.stringify({ pid: process.pid })) }),
  helper: (id) => {
    const helper = spawn(process.execPath, ['-e', 'setInterval(() => undefined, 1000)'], { stdio: 'inherit' })
    send({ id, result: text(JSON.stringify({ pid: helper.pid })) })
  },
  env: (id) => send({ id, result: text(JSON.stringify(process.env)) }),
  meta: (id, { _meta }) => send({ id, result: text(JSON.stringify(_meta)) }),
  cancelled: (id) => send({ id, result: text(String(cancelled)) }),
  bang: () => void bang(),
  log: (id) => {
    send({ method: 'notifications/message', params: { level: 'warning', data: 'mind the gap' } })
    send({ id, result: text('logged') })
  },
  ask: (id) => {
    asking = id
    send({
      id: 'question-1',
      method: 'elicitation/create',
      params: { message: 'Who?', requestedSchema: { type: 'object', properties: { name: { type: 'string' } } } },
    })
  },
  'ask-url': (id, { arguments: { url } = {} }) => {
    asking = id
    const params = { mode: 'url', message: 'Please look.', url, elicitationId: 'one' }
    send({ id: 'question-1', method: 'elicitation/create', params })
  },
  'error-result': (id) => send({ id, result: { ...text('it did not work'), isError: true } }),
  'ask-roots': (id) => {
    asking = id
    send({ id: 'question-1', method: 'roots/list' })
  },
  'ask-model': (id) => {
    asking = id
    const messages = [{ role: 'user', content: { type: 'text', text: 'Six times seven?' } }]
    send({ id: 'question-1', method: 'sampling/createMessage', params: { messages, maxTokens: 10 } })
  },
}
let asking: number | string | undefined
let cancelled = 0

/** A frame without end. */
function bang(): void {
  const piece = Buffer.alloc(1_048_576, 'x')
  const more = (): void => {
    while (process.stdout.write(piece)) {}
    process.stdout.once('drain', more)
  }
  process.stdout.write('{"jsonrpc":"2.0","x":"')
  more()
}

function answer(message: Message): void {
  const { id, method, params = {} } = message
  if (method === undefined && id === 'question-1') {
    send({ id: asking, result: text(JSON.stringify(message)) })
  } else if (method === 'notifications/cancelled') {
    cancelled += 1
  } else if (id === undefined || mode === 'mute') {
    return
  } else if (method === 'initialize' && mode === 'refuses') {
    send({ id, error: { code: -32_602, message: 'no entry here' } })
  } else if (method === 'initialize') {
    const capabilities = { tools: { listChanged: true }, logging: {} }
    send({ id, result: { protocolVersion: '2025-11-25', capabilities, serverInfo: { name: 'raw', version: '1' } } })
  } else if (method === 'server/discover' && mode === 'quits-on-question') {
    process.exit(0)
  } else if (method === 'tools/list' && mode === 'no-list') {
    return
  } else if (method === 'tools/list') {
    send({ id, result: list(params.cursor) })
    if (mode === 'changing' && lists === 1) send({ method: 'notifications/tools/list_changed' })
  } else if (method === 'ping') {
    send({ id, result: {} })
  } else if (method === 'tools/call') {
    const run = calls[params.name ?? '']
    if (run === undefined) send({ id, error: { code: -32_602, message: `Unknown tool: ${params.name}` } })
    else run(id, params)
  } else {
    send({ id, error: { code: -32_601, message: 'Method not found' } })
  }
}

if (mode === 'exits') {
  process.stderr.write('no licence found\n')
  process.exit(4)
}
if (mode === 'garbage-only') {
  const more = (): void => {
    while (process.stdout.write('nonsense\n'.repeat(100))) {}
    process.stdout.once('drain', more)
  }
  more()
}
createInterface({ input: process.stdin }).on('line', (line) => answer(JSON.parse(line)))
if (mode === 'stubborn') {
  process.on('SIGTERM', () => undefined)
  setInterval(() => undefined, 1_000)
}
