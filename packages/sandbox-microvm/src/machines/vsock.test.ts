import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { connectVsock } from './vsock.ts'

const signal = AbortSignal.timeout(30_000)

async function withDevice(answer: (host: Socket) => void, use: (path: string) => Promise<void>): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-vsock-'))
  const server = createServer((host) => {
    host.on('error', () => undefined)
    host.once('data', (line) => {
      assert.equal(line.toString(), 'CONNECT 1024\n')
      answer(host)
    })
  })
  const path = join(folder, 'v')
  await once(server.listen(path), 'listening')
  try {
    await use(path)
  } finally {
    server.close()
    rmSync(folder, { recursive: true })
  }
}

test('a guest is connected as soon as it listens, and what it says behind the answer is kept', async () => {
  let refused = 0
  const answer = (host: Socket): void => {
    refused += 1
    if (refused < 3) host.destroy()
    else host.write('OK 1073741824\nfirst words')
  }
  await withDevice(answer, async (path) => {
    const socket = await connectVsock(path, 1_024, signal)
    const words = once(socket, 'data')
    socket.resume()
    assert.equal(String((await words)[0]), 'first words')
    socket.destroy()
  })
  assert.equal(refused, 3)
})

test('an answer that is none of the protocol rejects, and no answer waits for the signal', async () => {
  for (const line of ['OK\n', 'OK x\n', 'HTTP/1.1 200 OK\r\n', 'x'.repeat(64)]) {
    await withDevice(
      (host) => void host.write(line),
      (path) => assert.rejects(connectVsock(path, 1_024, signal), { code: 'SANDBOX_INIT_FAILED' }),
    )
  }
  const ending = AbortSignal.timeout(50)
  await withDevice(
    () => undefined,
    (path) => assert.rejects(connectVsock(path, 1_024, ending), { name: 'TimeoutError' }),
  )
})
