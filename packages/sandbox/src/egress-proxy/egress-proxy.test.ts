import assert from 'node:assert/strict'
import { once } from 'node:events'
import { existsSync, statSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import { fails, guard, here, serve, serveRaw } from '../../../core/src/egress/egress.fixture.ts'
import { createEgressProxy } from './egress-proxy.ts'
import { proxyFor, received, tempFolder } from './proxy.fixture.ts'

const root = process.getuid?.() === 0

test('the proxy socket is accessible only to its owner', async (t) => {
  const { egress } = guard(t)
  const socketFolder = await tempFolder(t)
  const proxy = await createEgressProxy({ egress, owner: 'x', allow: [], socketFolder, uid: 54_321 })
  t.after(() => proxy.close())
  assert.equal(proxy.path, join(socketFolder, 'proxy.sock'))
  const { mode, uid } = statSync(proxy.path)
  assert.equal(mode & 0o777, 0o600)
  assert.equal(uid, root ? 54_321 : process.getuid?.())
})

test('closing the proxy ends every connection in any state and removes the socket', async (t) => {
  const mute = await serveRaw(t, (socket) => void socket.resume())
  const allow = here(mute, { origin: `https://127.0.0.1:${mute.port}` })
  const { path, open, close, egress } = await proxyFor(t, { allow })
  const [waiting, busy, tunnel] = [open(), open(), open()]
  const arrived = once(busy, 'connect')
  busy.write(`GET ${mute.origin}/ HTTP/1.1\r\n\r\n`)
  tunnel.write(`CONNECT 127.0.0.1:${mute.port} HTTP/1.1\r\n\r\n`)
  await Promise.all([once(waiting, 'connect'), arrived, once(tunnel, 'data')])
  const ends = Promise.all([waiting, busy, tunnel].map(received))
  await Promise.all([close(), close()])
  await ends
  assert.equal(existsSync(path), false)
  await close()
  assert.equal(await received(open()), '')
  // The proxy does not own the egress, which stays open.
  const other = await serve(t)
  egress.setRules(here(other))
  const response = await egress.request({ owner: 'test', url: other.origin, signal: t.signal })
  assert.equal(await response.text(), 'ok')
})

test('the signal closes the proxy, also before it is open', async (t) => {
  const { egress } = guard(t)
  const options = { egress, owner: 'x', allow: [], socketFolder: await tempFolder(t) }
  const controller = new AbortController()
  const proxy = await createEgressProxy({ ...options, signal: controller.signal })
  const socket = connect(proxy.path)
  await once(socket, 'connect')
  const ended = received(socket)
  controller.abort(new Error('over'))
  await ended
  await proxy.close()
  assert.equal(existsSync(proxy.path), false)
  await assert.rejects(createEgressProxy({ ...options, signal: controller.signal }), /over/)
  assert.equal(existsSync(proxy.path), false)
})

test('opening the proxy fails for an invalid origin, a missing folder and an existing socket', async (t) => {
  const { egress } = guard(t)
  const options = { egress, owner: 'x', allow: [], socketFolder: await tempFolder(t) }
  await assert.rejects(createEgressProxy({ ...options, allow: ['example.com'] }), fails('INPUT_INVALID'))
  const nowhere = join(options.socketFolder, 'nowhere')
  await assert.rejects(createEgressProxy({ ...options, socketFolder: nowhere }), fails('SANDBOX_INIT_FAILED'))
  const long = join(options.socketFolder, 'x'.repeat(120))
  await assert.rejects(createEgressProxy({ ...options, socketFolder: long }), fails('SANDBOX_INIT_FAILED'))
  const proxy = await createEgressProxy(options)
  await assert.rejects(createEgressProxy(options), fails('SANDBOX_INIT_FAILED'))
  assert.ok(existsSync(proxy.path))
  await proxy.close()
})

test('the origin list narrows the egress rules and never widens them', async (t) => {
  const [both, ruled, listed] = [await serve(t), await serve(t), await serve(t)]
  const allow = here(both, ruled)
  const { send, events } = await proxyFor(t, { allow, only: [both.origin, listed.origin] })
  const status = async ({ origin }: { origin: string }): Promise<string> =>
    (await send(`GET ${origin}/ HTTP/1.1\r\n\r\n`)).slice(9, 12)
  assert.deepEqual([await status(both), await status(ruled), await status(listed)], ['200', '403', '403'])
  assert.deepEqual(
    events.map(({ owner, port, outcome }) => [owner, port, outcome]),
    [
      ['sandbox:1', both.port, 'connected'],
      ['sandbox:1', ruled.port, 'refused'],
      ['sandbox:1', listed.port, 'refused'],
    ],
  )
})
