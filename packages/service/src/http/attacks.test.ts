import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { test } from 'node:test'
import type { ErrorInfo, Result } from '@gantry/contract'
import { stub } from '../stub.fixture.ts'
import { exchange, partsOf, type Rig, startRig } from './http.fixture.ts'

async function codeOf(response: Response): Promise<string> {
  return ((await response.json()) as { error: ErrorInfo }).error.code
}

function head({ key }: Rig, more: string): string {
  const common = `Host: localhost\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\n`
  return `POST /v1/calls HTTP/1.1\r\n${common}${more}\r\n`
}

/** The service still works: it accepts a call and answers it with the output of that call. */
async function isWell({ post }: Rig): Promise<void> {
  const answer = await post('/v1/calls', { tool: 'demo:add', args: { a: 5, b: 3 } })
  assert.deepEqual(((await answer.json()) as Result).output, { result: 8 })
}

test('JSON that other parsers accept with a loss is refused with its path', async (t) => {
  const rig = await startRig(t)
  const deep = 100_000
  const args = (text: string): string => `{"tool":"demo:echo","args":{"value":${text}}}`
  const hostile = {
    deep: args('['.repeat(deep) + ']'.repeat(deep)),
    deepObject: args(`${'{"a":'.repeat(deep)}1${'}'.repeat(deep)}`),
    twice: '{"tool":"demo:echo","args":{"value":1,"value":2}}',
    large: args('9007199254740993'),
    huge: args('1e999'),
    proto: args('{"__proto__":{"polluted":true}}'),
    half: args('"\\ud800"'),
    members: args(`[${'1,'.repeat(200_000)}1]`),
    trailing: `${args('1')}garbage`,
    comment: '{/**/}',
    nan: args('NaN'),
    bom: `\ufeff${args('1')}`,
  }
  // The control: JSON.parse accepts most of them.
  for (const name of ['twice', 'large', 'huge', 'proto', 'half', 'members'] as const) JSON.parse(hostile[name])
  for (const [name, body] of Object.entries(hostile)) {
    const answer = await rig.post('/v1/calls', body)
    assert.deepEqual([answer.status, await codeOf(answer)], [400, 'PAYLOAD_INVALID'], name)
  }
  assert.equal(rig.service.submitted.length, 0)
  assert.equal(({} as { polluted?: boolean }).polluted, undefined)
  await isWell(rig)
})

test('bytes that are not UTF-8 are refused, not repaired', async (t) => {
  const rig = await startRig(t)
  const body = (value: readonly number[]): Uint8Array => {
    const [before, after] = ['{"tool":"demo:echo","args":{"value":"', '"}}'].map((text) => Buffer.from(text))
    return Buffer.concat([before ?? Buffer.alloc(0), Buffer.from(value), after ?? Buffer.alloc(0)])
  }
  const post = (bytes: Uint8Array, type = 'application/json'): Promise<Response> =>
    rig.ask('/v1/calls', { method: 'POST', body: Buffer.from(bytes), headers: { 'content-type': type } })
  for (const bytes of [[0xff], [0xc0, 0xaf], [0xed, 0xa0, 0x80], [0xf4, 0x90, 0x80, 0x80], [0xe2, 0x82]]) {
    const answer = await post(body(bytes))
    assert.deepEqual([answer.status, await codeOf(answer)], [400, 'PAYLOAD_INVALID'], String(bytes))
  }
  assert.equal((await post(body([0xe2, 0x82, 0xac]))).status, 200)
  for (const type of [
    'text/plain',
    'multipart/form-data; boundary=x',
    'application/json; charset=utf-16',
    'json',
    '',
  ]) {
    const answer = await post(body([0x61]), type)
    assert.deepEqual([answer.status, await codeOf(answer)], [400, 'PAYLOAD_INVALID'], type)
  }
  for (const type of ['Application/JSON; Charset="UTF-8"', 'application/x-www-form-urlencoded']) {
    assert.equal((await post(body([0x61]), type)).status, 200, type)
  }
})

test('a body over the limit is refused with or without a content length, and the client gets the error', async (t) => {
  const rig = await startRig(t, { limits: { bodyBytes: 10_000 } })
  const fits = { tool: 'demo:echo', args: { value: 'x'.repeat(9_000) } }
  assert.equal((await rig.post('/v1/calls', fits)).status, 200)
  const declared = await rig.post('/v1/calls', 'x'.repeat(5_000_000))
  assert.deepEqual([declared.status, await codeOf(declared)], [413, 'PAYLOAD_TOO_LARGE'])
  const pieces = (async function* () {
    for (let index = 0; index < 500; index += 1) yield Buffer.alloc(10_000, 'x')
  })()
  const init = { method: 'POST', body: pieces, duplex: 'half', headers: { 'content-type': 'application/json' } }
  const undeclared = await rig.ask('/v1/calls', stub<RequestInit>(init))
  assert.deepEqual([undeclared.status, await codeOf(undeclared)], [413, 'PAYLOAD_TOO_LARGE'])
  await isWell(rig)
})

test('a compressed body is refused, so that none can grow', async (t) => {
  const rig = await startRig(t)
  for (const encoding of ['gzip', 'br', 'deflate', 'identity, gzip']) {
    const answer = await rig.post('/v1/calls', { tool: 'demo:add' }, { 'content-encoding': encoding })
    assert.deepEqual([answer.status, await codeOf(answer)], [400, 'PAYLOAD_INVALID'], encoding)
  }
})

test('malformed ids are refused without a lookup', async (t) => {
  const rig = await startRig(t)
  const asked: string[] = []
  const service = {
    ...rig.service,
    call: (id: string, identity: Parameters<typeof rig.service.call>[1]) => {
      asked.push(id)
      return rig.service.call(id, identity)
    },
  }
  const watched = await startRig(t, { service })
  for (const id of [
    'a%00b',
    '..%2F..%2Fetc',
    '%2e%2e%2f',
    "a'or'1",
    'a%0d%0ab',
    'x'.repeat(300),
    'x'.repeat(700),
    '%F0%9F',
    '*',
  ]) {
    const answer = await watched.ask(`/v1/calls/${id}`)
    assert.deepEqual([answer.status, await codeOf(answer)], [404, 'NOT_FOUND'], id)
  }
  assert.deepEqual(asked, [])
  assert.equal((await watched.ask('/v1/calls/plain')).status, 404)
  assert.deepEqual(asked, ['plain'])
  for (const id of ['a%00b', '..%2F..%2Fetc', 'demo%3Aadd%0A']) {
    const answer = await watched.ask(`/v1/tools/${id}`)
    assert.deepEqual([answer.status, await codeOf(answer)], [400, 'TOOL_ID_INVALID'], id)
  }
})

test('a request head over the limit is 431 with the error body of every route', async (t) => {
  const rig = await startRig(t)
  const bomb = `X-Bomb: ${'x'.repeat(100_000)}\r\n`
  const { status, body } = partsOf(await exchange(rig.server, [head(rig, bomb)]))
  assert.deepEqual([status, (JSON.parse(body) as { error: ErrorInfo }).error.code], [431, 'PAYLOAD_TOO_LARGE'])
  const many = Array.from({ length: 5_000 }, (_, index) => `X-${index}: 1\r\n`).join('')
  assert.equal(partsOf(await exchange(rig.server, [head(rig, many)])).status, 431)
  await isWell(rig)
})

test('malformed or ambiguous HTTP is 400 with the error body of every route', async (t) => {
  const rig = await startRig(t)
  const broken = [
    'GET /healthz\r\n\r\n',
    'GET /healthz HTTP/9.9\r\n\r\n',
    '\u0016\u0003\u0001\u0000\r\n\r\n',
    'GET /healthz HTTP/1.1\r\nHost: localhost\r\nBroken\r\n\r\n',
    'GET /healthz HTTP/1.1\r\nHost : localhost\r\n\r\n',
    head(rig, 'Content-Length: 5\r\nTransfer-Encoding: chunked\r\n'),
    head(rig, 'Content-Length: 5\r\nContent-Length: 6\r\n'),
    head(rig, 'Transfer-Encoding: gzip\r\n'),
    `${head(rig, 'Transfer-Encoding: chunked\r\n')}zz\r\n`,
    head(rig, 'Content-Length: -1\r\n'),
  ]
  for (const text of broken) {
    const { status, body } = partsOf(await exchange(rig.server, [text]))
    assert.equal(status, 400, text)
    assert.equal((JSON.parse(body) as { error: ErrorInfo }).error.code, 'PAYLOAD_INVALID', text)
  }
  const { status } = partsOf(await exchange(rig.server, [head(rig, 'Expect: magic\r\nConnection: close\r\n')]))
  assert.equal(status, 417)
  await isWell(rig)
})

test('a body that arrives too slowly is 408, and its connection ends', async (t) => {
  const rig = await startRig(t, { limits: { headersMs: 100, requestMs: 200 } })
  const slow = [head(rig, 'Content-Length: 100\r\n'), '{"tool":']
  const { status, body } = partsOf(await exchange(rig.server, slow))
  assert.deepEqual([status, (JSON.parse(body) as { error: ErrorInfo }).error.code], [408, 'TIMEOUT'])
  assert.equal(partsOf(await exchange(rig.server, ['POST /v1/calls HTTP/1.1\r\nHost:'])).status, 408)
  assert.equal(rig.service.submitted.length, 0)
  await isWell(rig)
})

test('bytes after a request in progress do not get the response of that request', async (t) => {
  const rig = await startRig(t)
  const call = JSON.stringify({ tool: 'demo:sleep', args: { ms: 100 } })
  const first = `${head(rig, `Content-Length: ${call.length}\r\n`)}${call}`
  const answer = await exchange(rig.server, [first, 'nonsense\r\n\r\n'])
  // Either the first request is answered or nothing is; the bytes after it never get its response.
  assert.ok(answer === '' || answer.startsWith('HTTP/1.1 200'), answer)
  await isWell(rig)
})

test('a client that disconnects within its body leaves nothing behind', async (t) => {
  const rig = await startRig(t)
  const socket = connect(rig.server.port, rig.server.host)
  socket.write(`${head(rig, 'Content-Length: 100\r\n')}{"tool":`)
  await once(socket, 'connect')
  await new Promise((resolve) => setTimeout(resolve, 20))
  socket.resetAndDestroy()
  await once(socket, 'close')
  await isWell(rig)
  assert.ok(rig.lines.every(({ level }) => level === 'debug'))
  assert.equal(rig.service.submitted.length, 1)
})

test('the server opens no more connections than its limit, and serves a caller when some end', async (t) => {
  const rig = await startRig(t, { limits: { connections: 3 } })
  const sockets = Array.from({ length: 20 }, () => connect(rig.server.port, rig.server.host))
  t.after(() => {
    for (const socket of sockets) socket.destroy()
  })
  for (const socket of sockets) socket.on('error', () => undefined)
  let ended = 0
  await new Promise<void>((resolve) => {
    for (const socket of sockets) {
      socket.on('close', () => {
        ended += 1
        if (ended === 17) resolve()
      })
    }
  })
  const open = sockets.filter(({ destroyed }) => !destroyed)
  assert.equal(open.length, 3)
  for (const socket of open) socket.destroy()
  await Promise.all(open.map((socket) => once(socket, 'close')))
  await isWell(rig)
})
