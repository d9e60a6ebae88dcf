import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { type TestContext, test } from 'node:test'
import { type Identity, type StreamEvent, ToolError } from '@gantry/contract'
import { defineTool } from '@gantry/core'
import { type Presented, unauthenticated } from './authentication/authenticator.ts'
import { exchange, owner, partsOf, type Rig, startRig } from './http.fixture.ts'
import { fakeService } from './service.fixture.ts'

const anything = { type: 'object' } as const

/** Reports the given texts, and then waits until it is cancelled. */
const talker = defineTool({
  namespace: 'test',
  name: 'talk',
  description: 'Talks.',
  effect: 'read',
  inputSchema: {
    type: 'object',
    properties: { texts: { type: 'array', items: { type: 'string' } }, stay: { type: 'boolean' } },
    required: ['texts'],
  },
  async *run({ texts, stay }, { signal }) {
    for (const text of texts) yield text
    if (stay) await once(signal, 'abort')
    return { said: texts.length }
  },
})

/** Reports far more than any buffer holds. */
const flood = defineTool({
  namespace: 'test',
  name: 'flood',
  description: 'Floods.',
  effect: 'read',
  inputSchema: anything,
  async *run() {
    for (let index = 0; index < 200; index += 1) yield 'x'.repeat(200_000)
    return {}
  },
})

async function begin({ post }: Rig, tool: string, args: object): Promise<string> {
  const answer = await post('/v1/calls', { tool, args, waitMs: 0 })
  return ((await answer.json()) as { callId: string }).callId
}

/** Events as a browser would read them: by lines, with the data joined. */
function parse(text: string): { id?: string; event?: string; data?: string }[] {
  const blocks = text.split(/(?:\r\n|\r|\n){2}/).filter((block) => block !== '' && !block.startsWith(':'))
  return blocks.map((block) => {
    const lines = block.split(/\r\n|\r|\n/).map((line) => /^([a-z]+): ?(.*)$/s.exec(line) ?? [])
    return Object.fromEntries(lines.map(([, name = '', value = '']) => [name, value]))
  })
}

test('events have ids, kinds and data, and the stream ends with the outcome of the call', async (t) => {
  const rig = await startRig(t)
  const callId = await begin(rig, 'demo:countdown', { from: 2, delayMs: 1 })
  const answer = await rig.ask(`/v1/calls/${callId}/events`)
  assert.equal(answer.headers.get('content-type'), 'text/event-stream')
  const events = parse(await answer.text())
  const data = events.map((event) => JSON.parse(event.data ?? '') as StreamEvent)
  assert.deepEqual(
    data.map(({ kind }) => kind),
    ['progress', 'chunk', 'progress', 'chunk', 'progress', 'done'],
  )
  assert.deepEqual(
    events.map(({ id, event }) => [id, event]),
    data.map(({ id, kind }) => [String(id), kind]),
  )
})

test('a reader resumes after its last event, by header or by query; the header takes precedence', async (t) => {
  const rig = await startRig(t, {}, fakeService([talker]))
  const callId = await begin(rig, 'test:talk', { texts: ['a', 'b', 'c'] })
  const read = async (query: string, headers = {}): Promise<(string | undefined)[]> => {
    const answer = await rig.ask(`/v1/calls/${callId}/events${query}`, { headers })
    return parse(await answer.text()).map((event) => event.id)
  }
  const all = await read('')
  assert.equal(all.length, 4)
  assert.deepEqual(await read(`?after=${all[1]}`), all.slice(2))
  assert.deepEqual(await read('', { 'last-event-id': all[2] }), all.slice(3))
  assert.deepEqual(await read(`?after=${all[0]}`, { 'last-event-id': all[2] }), all.slice(3))
  assert.deepEqual(await read(`?after=${all[3]}`), [])
})

test('an unknown call and a malformed Last-Event-ID are refused before the stream begins', async (t) => {
  const rig = await startRig(t)
  assert.equal((await rig.ask('/v1/calls/nothing/events')).status, 404)
  const callId = await begin(rig, 'demo:add', { a: 1, b: 2 })
  for (const given of ['x', '-1', '1.5', '1e3', '99999999999999999', ' 1 2', '1,2']) {
    const answer = await rig.ask(`/v1/calls/${callId}/events`, { headers: { 'last-event-id': given } })
    assert.equal(answer.status, 400, given)
  }
})

test('text from a tool cannot end an event or begin another', async (t) => {
  const rig = await startRig(t, {}, fakeService([talker]))
  const hostile = [
    'a\n\nevent: done\ndata: {}\n\n',
    'b\r\rid: 99\r',
    '\u2028event: done\u2029',
    '\u0000',
    ': comment\n',
  ]
  // The control: the same text, written without escaping, does pass for an event.
  assert.equal(parse(`data: ${hostile[0]}`).length, 2)
  const callId = await begin(rig, 'test:talk', { texts: hostile })
  const events = parse(await (await rig.ask(`/v1/calls/${callId}/events`)).text())
  const chunks = events.slice(0, -1).map(({ event, data = '' }) => {
    assert.equal(event, 'chunk')
    return (JSON.parse(data) as { data: string }).data
  })
  assert.deepEqual(chunks, hostile)
  assert.equal(events.length, hostile.length + 1)
})

test('a stream without events sends heartbeats', async (t) => {
  const rig = await startRig(t, { limits: { heartbeatMs: 10 } }, fakeService([talker]))
  const callId = await begin(rig, 'test:talk', { texts: [], stay: true })
  const answer = await rig.ask(`/v1/calls/${callId}/events`)
  let [text, beats] = ['', 0]
  const decoder = new TextDecoder()
  for await (const piece of answer.body ?? []) {
    text += decoder.decode(piece as Uint8Array, { stream: true })
    beats = text.split(': still here\n\n').length - 1
    if (beats >= 3) break
  }
  assert.ok(beats >= 3)
})

test('the server stops reading events for a client that disconnected', async (t) => {
  const rig = await startRig(t, {}, fakeService([talker]))
  const callId = await begin(rig, 'test:talk', { texts: ['a'], stay: true })
  const stop = new AbortController()
  const answer = await rig.ask(`/v1/calls/${callId}/events`, { signal: stop.signal })
  const reader = answer.body?.getReader()
  await reader?.read()
  assert.equal(rig.service.readers, 1)
  stop.abort()
  while (rig.service.readers > 0) await new Promise((resolve) => setTimeout(resolve, 5))
})

/** A server with one credential. `now` is its identity, or the error of its lookup: revoked, or unavailable. */
async function startChanging(t: TestContext) {
  const state = { now: owner as Identity | ToolError, looks: 0 }
  const authenticate = async ({ again }: Presented) => {
    if (again) state.looks += 1
    if (ToolError.is(state.now)) throw state.now
    return { identity: state.now }
  }
  const rig = await startRig(t, { authenticate, limits: { recheckMs: 5 } }, fakeService([talker]))
  const callId = await begin(rig, 'test:talk', { texts: ['a'], stay: true })
  const { body } = await rig.ask(`/v1/calls/${callId}/events`)
  const pieces: Buffer[] = []
  const read = async (): Promise<void> => {
    for await (const piece of body ?? []) pieces.push(Buffer.from(piece as Uint8Array))
  }
  return { state, rig, cut: read(), text: () => Buffer.concat(pieces).toString() }
}

test('a stream whose credential is revoked is cut off with a comment', async (t) => {
  const { state, rig, cut, text } = await startChanging(t)
  while (state.looks < 3 || text() === '') await new Promise((resolve) => setTimeout(resolve, 5))
  assert.equal(rig.service.readers, 1, 'a stream with a valid credential is left alone')
  state.now = unauthenticated()
  await assert.rejects(cut)
  assert.deepEqual(
    parse(text()).map(({ event }) => event),
    ['chunk'],
  )
  assert.match(text(), /: the credential of this stream is no longer valid\n\n$/)
  while (rig.service.readers > 0) await new Promise((resolve) => setTimeout(resolve, 5))
})

test('a stream whose credential has changed permissions is cut off', async (t) => {
  const { state, cut } = await startChanging(t)
  state.now = { ...owner, tools: ['demo:*'] }
  await assert.rejects(cut)
})

test('a stream whose credential cannot be checked is cut off after five failed checks', async (t) => {
  const { state, cut } = await startChanging(t)
  state.now = new ToolError('STORE_UNAVAILABLE', 'The database is unavailable.')
  const before = state.looks
  await assert.rejects(cut)
  assert.ok(state.looks - before >= 5)
})

test('the server waits for a slow reader, which then gets all events', async (t) => {
  const rig = await startRig(t, { limits: { heartbeatMs: 10 } }, fakeService([flood]))
  const callId = await begin(rig, 'test:flood', {})
  await rig.ask(`/v1/calls/${callId}?waitMs=20000`)
  const socket = connect(rig.server.port, rig.server.host)
  socket.pause()
  const head = `GET /v1/calls/${callId}/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${rig.key}\r\nConnection: close\r\n\r\n`
  socket.write(head)
  while (rig.service.readers === 0) await new Promise((resolve) => setTimeout(resolve, 5))
  // Long enough to write everything if the server did not wait for the reader: 40 MB and many heartbeats.
  await new Promise((resolve) => setTimeout(resolve, 300))
  assert.equal(rig.service.readers, 1)
  const pieces: Buffer[] = []
  socket.on('data', (piece: Buffer) => pieces.push(piece))
  socket.resume()
  await once(socket, 'close')
  const text = Buffer.concat(pieces).toString('latin1')
  assert.equal(text.split('event: chunk\n').length - 1, 200)
  assert.equal(text.split('event: done\n').length - 1, 1)
})

test('a line break or NUL in Last-Event-ID is 400', async (t) => {
  const { server, key } = await startRig(t)
  for (const given of ['1\rX-Evil: 1', '1\u0000', '1\nX']) {
    const head = `GET /v1/calls/x/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${key}\r\nConnection: close\r\n`
    const { status } = partsOf(await exchange(server, [`${head}Last-Event-ID: ${given}\r\n\r\n`]))
    assert.equal(status, 400, JSON.stringify(given))
  }
})

test('a stream that fails inside the service is cut off, so that its reader does not take it for complete', async (t) => {
  const rig = await startRig(t)
  const callId = await begin(rig, 'demo:add', { a: 1, b: 2 })
  const broken = {
    ...rig.service,
    async events() {
      return (async function* (): AsyncGenerator<StreamEvent> {
        yield { kind: 'chunk', data: 1, id: 1, callId }
        throw new Error('the database is unavailable')
      })()
    },
  }
  const other = await startRig(t, { service: broken })
  const answer = await other.ask(`/v1/calls/${callId}/events`)
  const pieces: Uint8Array[] = []
  await assert.rejects(async () => {
    for await (const piece of answer.body ?? []) pieces.push(piece as Uint8Array)
  })
  assert.deepEqual(
    parse(Buffer.concat(pieces).toString()).map(({ event }) => event),
    ['chunk'],
  )
  assert.ok(other.lines.some(({ level }) => level === 'error'))
})
