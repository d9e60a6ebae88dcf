import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { createServer as createTlsServer } from 'node:tls'
import { inspect } from 'node:util'
import { ToolError } from '@gantry/contract'
import { redisTransport } from '../redis.ts'
import type { Delivery } from '../transport.ts'
import { openRedis } from './connection.ts'
import { freshKey, redisForFile } from './redis.fixture.ts'
import { textOf } from './reply.ts'

const file = redisForFile()

function isCode(code: string): (error: unknown) => boolean {
  return (error) => ToolError.is(error) && error.code === code
}

function shown(error: unknown): string {
  return inspect(error, { depth: null, showHidden: true })
}

async function until(condition: () => Promise<boolean> | boolean): Promise<void> {
  while (!(await condition())) await pause(10)
}

async function listening(t: TestContext, server: Server): Promise<number> {
  const sockets = new Set<Socket>()
  server.on('connection', (socket) => sockets.add(socket))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => {
    for (const socket of sockets) socket.destroy()
    return new Promise((resolve) => server.close(resolve))
  })
  return (server.address() as AddressInfo).port
}

/** A server that answers each command by its name. */
async function fakeRedis(t: TestContext, answers: { readonly [name: string]: string }): Promise<string> {
  const server = createServer((socket) => {
    socket.on('error', () => {})
    socket.on('data', (data) => {
      for (const [, name = ''] of data.toString().matchAll(/\*\d+\r\n\$\d+\r\n(\w+)\r\n/g)) {
        socket.write(answers[name.toUpperCase()] ?? '+OK\r\n')
      }
    })
  })
  return `redis://127.0.0.1:${await listening(t, server)}`
}

test('commands send and return bytes, and a pipeline takes one round trip with one result for each command', async (t) => {
  const redis = await file.open(t)
  const key = freshKey()
  const bytes = Buffer.from([0, 255, 13, 10])
  await redis.call(['SET', key, bytes])
  assert.deepEqual(await redis.call(['GET', key]), bytes)
  const answers = await redis.pipeline([
    ['GET', key],
    ['LPUSH', key, 'x'],
    ['STRLEN', key],
  ])
  assert.deepEqual([answers[0], answers[2]], [bytes, 4])
  const failed = answers[1]
  assert.ok(ToolError.is(failed))
  assert.deepEqual([failed.code, failed.retryable, failed.details?.reply], ['STORE_UNAVAILABLE', false, 'WRONGTYPE'])
  assert.deepEqual(await redis.pipeline([]), [])
})

test('an invalid address is refused', async () => {
  for (const url of ['', 'localhost:6379', 'http://localhost', 'redis://', 'redis://h/name', 'redis://u:%zz@h']) {
    await assert.rejects(openRedis({ url }), isCode('CONFIG_INVALID'), url)
  }
})

test('a wrong password is refused, and is not in the error', async (t) => {
  const { port } = await file.server(t)
  const opening = openRedis({ url: `redis://:hunter2secret@127.0.0.1:${port}` })
  await assert.rejects(opening, (error) => isCode('CONFIG_INVALID')(error) && !shown(error).includes('hunter2secret'))
})

test('a server that repeats the arguments in its refusal does not bring the password into the error', async (t) => {
  const auth = "-ERR unknown command 'AUTH', with args beginning with: 'hunter2secret' \r\n"
  const url = (await fakeRedis(t, { AUTH: auth })).replace('//', '//:hunter2secret@')
  await assert.rejects(openRedis({ url }), (error) => ToolError.is(error) && !shown(error).includes('hunter2secret'))
})

test('a server before 6.2 is refused, and a later one is not', async (t) => {
  const hello = (version: string) => `*2\r\n$7\r\nversion\r\n$${version.length}\r\n${version}\r\n`
  const info = '$11\r\nloading:0\r\n\r\n'
  for (const HELLO of [hello('6.0.16'), hello('5.0'), hello(''), "-ERR unknown command 'HELLO'\r\n"]) {
    const url = await fakeRedis(t, { INFO: info, HELLO })
    await assert.rejects(
      openRedis({ url }),
      (error) => isCode('CONFIG_INVALID')(error) && /6\.2 or newer/.test(String(error)),
    )
  }
  for (const HELLO of [hello('6.2.0'), hello('7.0.15'), hello('10.1')]) {
    await (await openRedis({ url: await fakeRedis(t, { INFO: info, HELLO }) })).close()
  }
})

test('an unreachable server is STORE_UNAVAILABLE', async () => {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  await assert.rejects(openRedis({ url: `redis://127.0.0.1:${port}` }), isCode('STORE_UNAVAILABLE'))
})

test('a server that may be unavailable at first is used once it is up, and its streams are read from then on', async (t) => {
  const server = await file.server(t)
  server.kill()
  const redis = await file.open(t, { mayBeUnavailable: true })
  const stream = freshKey()
  const transport = await redisTransport({ redis, stream, group: 'g', consumer: 'c' })
  t.after(() => transport.close())
  await assert.rejects(redis.call(['PING']), isCode('STORE_UNAVAILABLE'))
  await assert.rejects(transport.receive(1, new AbortController().signal), isCode('STORE_UNAVAILABLE'))
  await server.restart()
  await until(() =>
    redis.call(['XADD', stream, '*', 'data', 'x']).then(
      () => true,
      () => false,
    ),
  )
  let taken: readonly Delivery[] = []
  await until(async () => {
    taken = await transport.receive(1, AbortSignal.timeout(5_000)).catch(() => [])
    return taken.length > 0
  })
  assert.equal(taken.length, 1)
  await transport.settle(taken)
})

test('a server that does not answer makes commands time out, then fail at once, until it answers again', async (t) => {
  const server = await file.server(t)
  const redis = await file.open(t, { commandMs: 200 })
  const key = freshKey()
  server.pause()
  try {
    const failure = await redis.call(['SET', key, 'x']).catch((error: unknown) => error)
    assert.ok(ToolError.is(failure))
    assert.deepEqual([failure.code, failure.details?.outcome], ['STORE_UNAVAILABLE', 'unknown'])
    // The connection was given up: a later command is never sent, so it is known that it was not executed.
    await until(async () => {
      const next = await redis.call(['SET', key, 'y']).catch((error: unknown) => error)
      return ToolError.is(next) && next.details?.outcome === undefined
    })
  } finally {
    server.resume()
  }
  await until(() =>
    redis.call(['PING']).then(
      () => true,
      () => false,
    ),
  )
})

test('every kind of connection reconnects to a server that was killed', async (t) => {
  const server = await file.server(t)
  const redis = await file.open(t)
  const waiting = redis.waiting(100)
  t.after(() => waiting.close())
  const channel = freshKey()
  const received: (string | undefined)[] = []
  const stop = await redis.subscribe(channel, (message) => received.push(message?.toString()))
  await redis.call(['PUBLISH', channel, 'one'])
  await until(() => received.length === 1)
  assert.equal(await waiting.call(['BLPOP', freshKey(), 0.01]), null)
  const blocked = waiting.call(['BLPOP', freshKey(), 0.1]).catch((error: unknown) => error)
  server.kill()
  await Promise.race([
    blocked,
    until(async () =>
      redis.call(['PING']).then(
        () => false,
        () => true,
      ),
    ),
  ])
  await server.restart()
  await until(() =>
    redis.call(['PING']).then(
      () => true,
      () => false,
    ),
  )
  await until(() =>
    waiting.call(['PING']).then(
      (pong) => textOf(pong) === 'PONG',
      () => false,
    ),
  )
  await until(() => received.includes(undefined))
  await redis.call(['PUBLISH', channel, 'two'])
  await until(() => received.length === 3)
  assert.deepEqual(received, ['one', undefined, 'two'])
  await stop()
  await redis.call(['PUBLISH', channel, 'three'])
  await redis.call(['PING'])
  assert.equal(received.length, 3)
})

test('rediss:// uses TLS, and only with a server whose certificate is trusted', async (t) => {
  const { port, password } = await file.server(t)
  const folder = mkdtempSync(join(tmpdir(), 'gantry-tls-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const [keyFile, certFile] = [join(folder, 'key'), join(folder, 'cert')]
  const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=IP:127.0.0.1']
  const made = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', keyFile, '-out', certFile]
  execFileSync('openssl', ['req', '-x509', '-days', '1', ...made, ...subject], { stdio: 'ignore' })
  const [key, cert] = [readFileSync(keyFile), readFileSync(certFile)]
  const proxy = createTlsServer({ key, cert }, (socket) => {
    const upstream = connect(port, '127.0.0.1')
    for (const one of [socket, upstream])
      one.on('error', () => {}).on('close', () => [socket, upstream].map((s) => s.destroy()))
    socket.pipe(upstream).pipe(socket)
  })
  proxy.on('tlsClientError', () => {})
  const url = `rediss://:${password}@127.0.0.1:${await listening(t, proxy)}`
  const redis = await openRedis({ url, tls: { ca: cert } })
  assert.equal(textOf(await redis.call(['PING'])), 'PONG')
  await redis.close()
  await assert.rejects(openRedis({ url }), isCode('STORE_UNAVAILABLE'))
})
