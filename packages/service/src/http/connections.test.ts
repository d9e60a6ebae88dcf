import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { type TestContext, test } from 'node:test'
import { newApiKey } from '../config/service-files.ts'
import { anyOf, keyFileAuthenticator } from './authentication/authenticator.ts'
import { addressKey } from './connections.ts'
import { type Rig, startRig } from './http.fixture.ts'
import type { HttpLimits } from './limits.ts'
import { fakeService, stayingTool } from './service.fixture.ts'

/** A connection that stays open and answers one request after the other. */
function line(t: TestContext, { server }: Pick<Rig, 'server'>, localAddress = '127.0.0.1') {
  const socket = connect({ port: server.port, host: '127.0.0.1', localAddress }).on('error', () => undefined)
  t.after(() => socket.destroy())
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()))
  let text = ''
  let listener: () => void = () => undefined
  socket.on('data', (piece: Buffer) => {
    text += piece.toString('latin1')
    listener()
  })
  const status = async (): Promise<number> => {
    for (;;) {
      const [head = '', ...rest] = text.split('\r\n\r\n')
      const length = Number(/content-length: (\d+)/i.exec(head)?.[1])
      if (rest.length > 0 && rest.join('\r\n\r\n').length >= length) {
        text = rest.join('\r\n\r\n').slice(length)
        return Number(head.slice(9, 12))
      }
      if (socket.destroyed) throw new Error('The connection was closed.')
      const { promise, resolve } = Promise.withResolvers<void>()
      listener = resolve
      await Promise.race([promise, closed])
    }
  }
  return {
    socket,
    closed,
    get: (path: string, key?: string): Promise<number> => {
      const credential = key === undefined ? '' : `Authorization: Bearer ${key}\r\n`
      socket.write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\n${credential}\r\n`)
      return status()
    },
  }
}

async function rigOf(t: TestContext, limits: Partial<HttpLimits>): Promise<Rig> {
  return startRig(t, { limits }, fakeService([stayingTool()]))
}

test('connections that only request /healthz lock out neither a new caller, nor an open connection, nor a stream', async (t) => {
  const rig = await rigOf(t, { connections: 8, unauthenticatedMs: 600_000 })
  const begun = await rig.post('/v1/calls', { tool: 'test:stay', waitMs: 0 }, { connection: 'close' })
  const { callId } = (await begun.json()) as { callId: string }
  const stream = line(t, rig)
  stream.socket.write(
    `GET /v1/calls/${callId}/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${rig.key}\r\n\r\n`,
  )
  await once(stream.socket, 'data')
  const honest = line(t, rig)
  assert.equal(await honest.get('/v1/workers', rig.key), 200)
  for (let round = 0; round < 3; round += 1) {
    const attackers = Array.from({ length: 20 }, () => line(t, rig))
    const healthy = await Promise.allSettled(attackers.map((one) => one.get('/healthz')))
    assert.ok(healthy.some(({ status }) => status === 'fulfilled'))
    const late = line(t, rig)
    assert.equal(await late.get('/v1/workers', rig.key), 200, 'a new caller at a full server')
    assert.equal(await honest.get('/v1/workers', rig.key), 200, 'a caller that was connected')
    late.socket.destroy()
    await late.closed
  }
  assert.ok(!stream.socket.destroyed, 'the stream goes on')
})

test('an address over its limit loses its idle connections first, and other addresses lose none', async (t) => {
  const rig = await rigOf(t, { connections: 100, connectionsPerAddress: 3, sharedAddresses: ['127.0.0.1'] })
  const shared = Array.from({ length: 5 }, () => line(t, rig))
  for (const one of shared) assert.equal(await one.get('/healthz'), 200)
  const known = line(t, rig, '127.0.0.2')
  assert.equal(await known.get('/v1/workers', rig.key), 200)
  const [first, second, third] = [line(t, rig, '127.0.0.2'), line(t, rig, '127.0.0.2'), line(t, rig, '127.0.0.3')]
  assert.equal(await second.get('/healthz'), 200)
  assert.equal(await first.get('/healthz'), 200)
  assert.equal(await third.get('/healthz'), 200)
  const fourth = line(t, rig, '127.0.0.2')
  assert.equal(await fourth.get('/healthz'), 200)
  await second.closed
  assert.equal(
    await known.get('/v1/workers', rig.key),
    200,
    'an authenticated one stays while an anonymous one can be closed',
  )
  for (const one of [first, third, ...shared]) assert.equal(await one.get('/healthz'), 200)
})

test('a connection that never authenticates is closed however often it sends requests, and an authenticated one stays', async (t) => {
  const rig = await rigOf(t, { unauthenticatedMs: 100 })
  const known = line(t, rig)
  assert.equal(await known.get('/v1/workers', rig.key), 200)
  const anonymous = line(t, rig)
  const refused = line(t, rig)
  const asking = async (one: ReturnType<typeof line>, key?: string): Promise<void> => {
    for (;;) await one.get('/v1/workers', key)
  }
  await Promise.all([
    assert.rejects(asking(anonymous)),
    assert.rejects(asking(refused, rig.key.replace('gk_', 'gk_x'))),
  ])
  assert.equal(await known.get('/healthz'), 200)
})

test('anonymous requests that do not end block no other client from connecting', async (t) => {
  const service = fakeService()
  let inside = 0
  const ready = (): Promise<never> => {
    inside += 1
    return new Promise(() => undefined)
  }
  const limits = { connections: 2, unauthenticatedMs: 600_000 }
  const rig = await startRig(t, { limits, service: { ...service, ready } }, service)
  const stuck = [line(t, rig), line(t, rig)]
  for (const one of stuck) assert.rejects(one.get('/readyz'))
  while (inside < 2) await new Promise((resolve) => setImmediate(resolve))
  const callers = [line(t, rig), line(t, rig)]
  for (const one of callers) assert.equal(await one.get('/v1/workers', rig.key), 200)
  await Promise.all(stuck.map(({ closed }) => closed))
})

test('a tenant that fills the server with authenticated connections loses its idle ones to other tenants', async (t) => {
  const rig = await rigOf(t, { connections: 6 })
  const ours = Array.from({ length: 5 }, () => line(t, rig))
  for (const one of ours) assert.equal(await one.get('/v1/workers', rig.key), 200)
  const theirs = line(t, rig)
  assert.equal(await theirs.get('/v1/workers', rig.otherKey), 200)
  const more = line(t, rig)
  assert.equal(await more.get('/v1/workers', rig.otherKey), 200)
  await ours[0]?.closed
  for (const one of ours.slice(1)) assert.equal(await one.get('/v1/workers', rig.key), 200)
  assert.equal(await theirs.get('/v1/workers', rig.otherKey), 200)
})

test('slow requests of one principal leave connections for others', async (t) => {
  const rig = await rigOf(t, { connections: 10, waitingPerPrincipal: 1, waitingPerTenant: 1 })
  const slow = Array.from({ length: 8 }, () => line(t, rig))
  const head = `POST /v1/calls HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${rig.key}\r\nContent-Length: 100\r\n\r\n{`
  const answers = slow.map(({ socket }) => once(socket, 'data').then(([piece]) => String(piece).slice(9, 12)))
  for (const { socket } of slow) socket.write(head)
  assert.equal(await Promise.any(answers), '429')
  for (let count = 0; count < 3; count += 1) {
    assert.equal(await line(t, rig).get('/v1/workers', rig.otherKey), 200)
  }
  for (const { socket } of slow) socket.destroy()
})

test('slow requests of two tenants on every connection leave one for a third tenant', async (t) => {
  const service = fakeService()
  const key = newApiKey()
  const third = keyFileAuthenticator(key, { principal: 'third', tenant: 'third', permissions: ['*'] })
  const keys = [newApiKey(), newApiKey()]
  const slowTenants = keys.map((one, index) =>
    keyFileAuthenticator(one, { principal: 'slow', tenant: `slow${index}`, permissions: ['*'] }),
  )
  let inside = 0
  const known = anyOf([third, ...slowTenants])
  const authenticate: typeof known.authenticate = async (...given) => {
    const identity = await known.authenticate(...given)
    inside += 1
    return identity
  }
  const limits = { connections: 10, waitingPerPrincipal: 1, waitingPerTenant: 1 }
  const rig = await startRig(t, { limits, authenticate }, service)
  const slow = Array.from({ length: 10 }, () => line(t, rig))
  for (const [index, { socket }] of slow.entries()) {
    const head = `POST /v1/calls HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${keys[index % 2]}\r\n`
    socket.write(`${head}Content-Length: 100\r\n\r\n{`)
    while (inside <= index) await new Promise((resolve) => setImmediate(resolve))
  }
  const honest = line(t, rig)
  for (let count = 0; count < 3; count += 1) assert.equal(await honest.get('/v1/workers', key), 200)
  await slow[0]?.closed
  assert.equal(slow.filter(({ socket }) => socket.destroyed).length, 1, 'no more connections are closed than needed')
  for (const { socket } of slow) socket.destroy()
})

test('an IPv6 address is counted by its /64 network, and a mapped IPv4 address as IPv4', () => {
  assert.equal(addressKey('192.0.2.7'), '192.0.2.7')
  assert.equal(addressKey('::ffff:192.0.2.7'), '192.0.2.7')
  assert.equal(addressKey('2001:db8:0:1::7'), addressKey('2001:0db8:0000:0001:ffff:1:2:3'))
  assert.equal(addressKey('2001:db8::1:2:3:4:5'), '2001:db8:0:1::/64')
  assert.notEqual(addressKey('2001:db8:0:1::7'), addressKey('2001:db8:0:2::7'))
  assert.equal(addressKey('fe80::1%eth0'), addressKey('fe80::2%eth0'))
  assert.equal(addressKey('::1'), '0:0:0:0::/64')
})
