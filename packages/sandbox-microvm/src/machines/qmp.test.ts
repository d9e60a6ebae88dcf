import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { test } from 'node:test'
import { listenForControl } from './qmp.ts'

const signal = AbortSignal.timeout(60_000)

/** A QEMU that answers each command with the next of these lines. */
async function withQemu(
  answers: readonly string[],
  use: (socket: Awaited<ReturnType<typeof listenForControl>>, qemu: Socket) => Promise<void>,
): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-qmp-'))
  const left = [...answers]
  const socket = await listenForControl(join(folder, 'qmp'))
  const qemu = connect(join(folder, 'qmp'))
  qemu.on('error', () => undefined)
  const lines = createInterface({ input: qemu })
  lines.on('error', () => undefined)
  lines.on('line', () => qemu.write(`${left.shift() ?? ''}\n`))
  try {
    await once(qemu, 'connect')
    qemu.write('{"QMP":{}}\n')
    await use(socket, qemu)
  } finally {
    socket.close()
    qemu.destroy()
    rmSync(folder, { recursive: true })
  }
}

test('a command resolves with what QEMU returns, whatever events come between', async () => {
  await withQemu(['{"return":{}}', '{"event":"STOP"}\n{"return":{"status":"completed"}}'], async (socket) => {
    const control = await socket.accepted(signal)
    assert.deepEqual(await control.execute('query-migrate'), { status: 'completed' })
  })
})

test('a refused command rejects with what QEMU said, and one after its end rejects', async () => {
  await withQemu(
    ['{"return":{}}', '{"error":{"class":"GenericError","desc":"no such thing"}}'],
    async (socket, qemu) => {
      const control = await socket.accepted(signal)
      await assert.rejects(control.execute('migrate'), { code: 'SANDBOX_INIT_FAILED', message: /no such thing/ })
      const waiting = control.execute('cont')
      qemu.destroy()
      await assert.rejects(waiting, { code: 'SANDBOX_INIT_FAILED' })
      await assert.rejects(control.execute('cont'), { code: 'SANDBOX_INIT_FAILED', message: /ended/ })
    },
  )
})

test('an answer that is no JSON, or an array, ends the control', async () => {
  for (const answer of ['nonsense', '[1]x', '"text"']) {
    await withQemu([answer], async (socket) => {
      await assert.rejects(socket.accepted(signal), { code: 'SANDBOX_INIT_FAILED' }, answer)
    })
  }
})

test('a control that nothing connects to is given up with the signal', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-qmp-'))
  const socket = await listenForControl(join(folder, 'qmp'))
  const reason = new Error('enough')
  await assert.rejects(socket.accepted(AbortSignal.abort(reason)), reason)
  socket.close()
  rmSync(folder, { recursive: true })
})
