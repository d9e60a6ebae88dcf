import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MessageChannel, Worker } from 'node:worker_threads'
import { createMailbox, createReader, createWriter, read, waitForPlace, written } from './mailbox.ts'

const places = 32

/** A mailbox through which so many texts have gone already, both ends of it here. */
function used(texts: number) {
  const mailbox = createMailbox()
  mailbox.counts.fill(texts)
  const { port1, port2 } = new MessageChannel()
  return {
    mailbox,
    send: createWriter(mailbox, port1),
    receive: createReader(mailbox, port2),
    close: () => port1.close(),
  }
}

/** Where the counts pass the largest of 32 bits with a sign, and those without one. */
const wraps = [0, 2 ** 31 - 1, -1].map((last) => (last - 5) | 0)

test('a mailbox is full when all its slots are used, also when its counters wrap around', () => {
  for (const before of wraps) {
    const { send, receive, close } = used(before)
    for (let round = 0; round < 3; round += 1) {
      for (let text = 0; text < places; text += 1) assert.equal(send(`${text}`), true, `${before}: ${text}`)
      assert.equal(send('one more'), false, `${before}`)
      for (let text = 0; text < places; text += 1) assert.equal(receive(), `${text}`)
      assert.equal(receive(), undefined)
    }
    close()
  }
})

test('a writer blocked on a full mailbox continues when a text is read, and not before', async () => {
  for (const before of wraps) {
    const { mailbox, send, close } = used(before)
    for (let text = 0; text < places; text += 1) send(`${text}`)
    const { counts } = mailbox
    const code = `Atomics.add(require('node:worker_threads').workerData, ${read}, 1)
      Atomics.notify(require('node:worker_threads').workerData, ${read})`
    const reader = new Worker(code, { eval: true, workerData: counts })
    const ended = new Promise((resolve) => reader.once('exit', resolve))
    waitForPlace(mailbox)
    assert.equal((Atomics.load(counts, written) - Atomics.load(counts, read)) | 0, places - 1, `${before}`)
    await ended
    close()
  }
})
