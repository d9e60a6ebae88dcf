import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { connect, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { connectInit } from './init.ts'
import { fromInit, PayloadWriter } from './protocol.ts'

/** Both ends of a Unix socket, as the host and the init of a sandbox have them. */
async function socketPair(t: TestContext): Promise<readonly [host: Socket, init: Socket]> {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-init-'))
  const server = createServer().listen(join(folder, 's'))
  const accepted = once(server, 'connection')
  const host = connect(join(folder, 's'))
  const [init] = (await accepted) as [Socket]
  t.after(() => {
    for (const end of [host, init, server]) 'destroy' in end ? end.destroy() : end.close()
    rmSync(folder, { recursive: true })
  })
  return [host, init]
}

test('output of a sandbox that never pauses leaves every turn of the event loop after one chunk', async (t) => {
  const [host, init] = await socketPair(t)
  const link = connectInit(host, () => assert.fail('The link was killed.'))
  init.write(new PayloadWriter().u8(0x31).frame(fromInit.ready))
  await link.ready
  let turn = 0
  let received = 0
  const byTurn = new Map<number, number>()
  const count = (): void => {
    turn += 1
    if (received < wanted) setImmediate(count)
  }
  const frame = new PayloadWriter().text('x'.repeat(1_000)).frame(fromInit.message)
  const wanted = 4_000 * 1_000
  const intake = {
    take(_type: number, { length }: Buffer) {
      received += length
      byTurn.set(turn, (byTurn.get(turn) ?? 0) + length)
      // The program writes on while its output is handled.
      if (init.writableLength < 1_000_000) init.write(Buffer.concat(Array.from({ length: 100 }, () => frame)))
    },
    end: undefined,
    received: () => assert.fail('The run has not ended.'),
  }
  link.go([], intake, () => assert.fail('The run has not ended.'))
  setImmediate(count)
  init.write(frame)
  while (received < wanted) {
    await new Promise((resolve) => setImmediate(resolve))
    t.signal.throwIfAborted()
  }
  assert.equal(link.fault(), undefined)
  assert.ok(Math.max(...byTurn.values()) <= 2 * 65_536, `${Math.max(...byTurn.values())} bytes in one turn`)
})
