import assert from 'node:assert/strict'
import { EventEmitter } from 'node:events'
import { test } from 'node:test'
import { readHidden } from './process-io.ts'

const never = new AbortController().signal

/** A terminal that remembers how it was left. */
class Terminal extends EventEmitter {
  raw = false
  reading = false
  setRawMode(on: boolean): void {
    this.raw = on
  }
  resume(): void {
    this.reading = true
  }
  pause(): void {
    this.reading = false
  }
}

async function typed(chunks: readonly (string | Buffer)[], signal = never): Promise<string> {
  const terminal = new Terminal()
  const reading = readHidden(terminal, 20, signal)
  assert.ok(signal.aborted || terminal.raw)
  for (const chunk of chunks) terminal.emit('data', Buffer.from(chunk))
  try {
    return await reading
  } finally {
    assert.deepEqual([terminal.raw, terminal.reading, terminal.listenerCount('data')], [false, false, 0])
  }
}

test('a typed line ends with Enter, however its input is split into chunks', async () => {
  assert.equal(await typed(['hun', 'ter2\rmore']), 'hunter2')
  assert.equal(await typed(['hunter2\n']), 'hunter2')
  assert.equal(await typed(['hunter2', '\u0004']), 'hunter2')
  const key = Buffer.from('schlüssel 🔑\r')
  assert.equal(await typed([key.subarray(0, 5), key.subarray(5, 13), key.subarray(13)]), 'schlüssel 🔑')
})

test('Backspace removes one whole character, and Ctrl-U removes the line', async () => {
  assert.equal(await typed(['ab🔑\u007f\u007fc\r']), 'ac')
  assert.equal(await typed(['wrong\u0015right\r']), 'right')
  assert.equal(await typed(['\u007fx\r']), 'x')
})

test('a typed line drops control sequences and is limited in length', async () => {
  assert.equal(await typed(['a\u0000\u0007\tb\r']), 'ab')
  assert.equal((await typed([`${'x'.repeat(500)}\r`])).length, 21)
})

test('Ctrl-C and an aborted signal cancel the prompt and restore the terminal', async () => {
  await assert.rejects(typed(['half\u0003']), { code: 'CANCELLED' })
  const controller = new AbortController()
  const terminal = new Terminal()
  const reading = readHidden(terminal, 20, controller.signal)
  controller.abort(new Error('enough'))
  await assert.rejects(reading, /enough/)
  assert.equal(terminal.raw, false)
})

test('a closed terminal ends the prompt', async () => {
  const terminal = new Terminal()
  const reading = readHidden(terminal, 20, never)
  terminal.emit('data', Buffer.from('abc'))
  terminal.emit('end')
  assert.equal(await reading, 'abc')
})
