import assert from 'node:assert/strict'
import { EventEmitter, once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { connect } from 'node:net'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { stub } from '../stub.fixture.ts'
import { createPipelining } from './connections.ts'
import type { Mount, RequestScope } from './handle-request.ts'
import { exchange, startRig } from './http.fixture.ts'

const head = 'host: 127.0.0.1\r\n'
const get = (number: number): string => `GET /slow?n=${number} HTTP/1.1\r\n${head}\r\n`
const post = (number: number): string =>
  `POST /slow?n=${number} HTTP/1.1\r\n${head}content-type: application/json\r\ncontent-length: 2\r\n\r\n{}`

/** Counts the requests that are being handled, each for as long as `gate` takes. */
function slowMount(gate: (scope: RequestScope) => Promise<unknown>) {
  const seen = { running: 0, most: 0, begun: 0 }
  const mount: Mount = {
    path: '/slow',
    async handle({ request }, scope) {
      seen.begun += 1
      seen.running += 1
      seen.most = Math.max(seen.most, seen.running)
      await gate(scope)
      seen.running -= 1
      return { kind: 'json', status: 200, headers: {}, body: { asked: request.url ?? '' } }
    },
  }
  return { seen, mount }
}

test('pipelined requests of a connection are handled one at a time, and answered in order', async (t) => {
  const { seen, mount } = slowMount(() => setImmediate())
  const { server } = await startRig(t, { mounts: [mount] })
  const numbers = Array.from({ length: 60 }, (_, index) => index)
  const last = `GET /slow?n=last HTTP/1.1\r\n${head}connection: close\r\n\r\n`
  const text = await exchange(server, [numbers.map((n) => (n % 2 === 0 ? get(n) : post(n))).join('') + last])
  const asked = [...text.matchAll(/"asked":"\/slow\?n=(\w+)"/g)].map(([, n]) => n)
  assert.deepEqual(asked, [...numbers.map(String), 'last'])
  assert.deepEqual(seen, { running: 0, most: 1, begun: 61 })
})

test('pipelined requests whose client disconnected are not started', async (t) => {
  const left = Promise.withResolvers<void>()
  const { seen, mount } = slowMount(async ({ gone }) => {
    socket.destroy()
    await once(gone, 'abort')
    left.resolve()
  })
  const { server, ask } = await startRig(t, { mounts: [mount] })
  const socket = connect(server.port, server.host)
  socket.write([1, 2, 3].map(get).join(''))
  await left.promise
  assert.equal((await ask('/healthz')).status, 200)
  assert.deepEqual(seen, { running: 0, most: 1, begun: 1 })
})

test('a connection stays paused while too many requests wait on it, also when Node resumes it', async () => {
  const seen: string[] = []
  const socket = Object.assign(new EventEmitter(), {
    destroyed: false,
    pause: () => seen.push('pause'),
    resume() {
      seen.push('resume')
      socket.emit('resume')
    },
  })
  const turn = createPipelining()
  const waiting = Array.from({ length: 6 }, () => Object.assign(new EventEmitter(), { socket: null }))
  const turns = waiting.map((response) => turn(stub<IncomingMessage>({ socket }), stub<ServerResponse>(response)))
  assert.deepEqual(seen, ['pause', 'pause'])
  socket.emit('resume')
  assert.deepEqual(seen.splice(0), ['pause', 'pause', 'pause'])
  for (const response of waiting.slice(0, 3)) response.emit('socket', socket)
  assert.deepEqual(seen, ['resume'])
  socket.emit('close')
  assert.deepEqual(await Promise.all(turns), [true, true, true, false, false, false])
  assert.equal(await turn(stub<IncomingMessage>({ socket }), stub<ServerResponse>({ socket })), true)
})
