import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { Readable } from 'node:stream'
import { test } from 'node:test'
import type { Dispatcher } from 'undici'
import { type Exchange, Incoming } from './exchange.ts'

/** What undici would hand to a handler, with a note of what was asked of it. */
function controllerOf(notes: unknown[]): Dispatcher.DispatchController {
  let paused = false
  return {
    aborted: false,
    reason: null,
    get paused() {
      return paused
    },
    abort: (reason) => void notes.push(reason),
    pause() {
      paused = true
    },
    resume() {
      paused = false
    },
  }
}

function start(options: { readonly retired?: AbortSignal; readonly sending?: Readable } = {}) {
  const stop = new AbortController()
  const notes: unknown[] = []
  const asked: Exchange = {
    target: { scheme: 'https', host: 'a.test', port: 443, origin: 'https://a.test' },
    url: new URL('https://a.test/'),
    method: 'GET',
    headers: [],
    body: undefined,
    signal: stop.signal,
    safe: true,
    headersMs: 0,
    idleMs: 0,
    leave: () => {},
  }
  const incoming = new Incoming(asked, options.retired ?? new AbortController().signal, options.sending)
  return { incoming, stop, notes, controller: controllerOf(notes) }
}

test('the response pauses when its buffer exceeds the bound, and resumes when the reader has drained it', async () => {
  const { incoming, controller } = start()
  incoming.onRequestStart(controller)
  incoming.onResponseStart(controller, 200, {})
  incoming.onResponseData(controller, Buffer.alloc(40_000))
  assert.equal(controller.paused, false)
  incoming.onResponseData(controller, Buffer.alloc(40_000))
  assert.equal(controller.paused, true)
  const pieces = incoming[Symbol.asyncIterator]()
  await pieces.next()
  assert.equal(controller.paused, true)
  await pieces.next()
  const third = pieces.next()
  assert.equal(controller.paused, false)
  incoming.onResponseData(controller, Buffer.alloc(7))
  assert.equal((await third).value?.byteLength, 7)
  incoming.onResponseEnd()
  assert.equal((await pieces.next()).done, true)
})

test('a request cancelled or forbidden while it waits for a connection is never sent', async () => {
  const reason = new Error('left')
  const cancelled = start()
  cancelled.stop.abort(reason)
  await assert.rejects(cancelled.incoming.answered, reason)
  cancelled.incoming.onRequestStart(cancelled.controller)
  const forbidden = start({ retired: AbortSignal.abort(reason) })
  forbidden.incoming.onRequestStart(forbidden.controller)
  for (const { incoming, notes } of [cancelled, forbidden]) assert.deepEqual([incoming.sent, notes], [false, [reason]])
})

test('an abort ends a body in flight, drops its buffered pieces and removes the listener', async () => {
  const { incoming, stop, notes, controller } = start()
  incoming.onRequestStart(controller)
  incoming.onResponseStart(controller, 200, {})
  await incoming.answered
  assert.equal(getEventListeners(stop.signal, 'abort').length, 1)
  const waiting = incoming[Symbol.asyncIterator]().next()
  incoming.onResponseData(controller, Buffer.alloc(1))
  const reason = new Error('left')
  stop.abort(reason)
  await assert.rejects(waiting, reason)
  assert.throws(() => incoming.take(), reason)
  assert.deepEqual([notes, getEventListeners(stop.signal, 'abort').length], [[reason], 0])
})

test('a broken body is an error even when pieces are buffered, and destroying an ended body does nothing', () => {
  const broken = start()
  broken.incoming.onRequestStart(broken.controller)
  broken.incoming.onResponseStart(broken.controller, 200, {})
  broken.incoming.onResponseData(broken.controller, Buffer.alloc(1))
  broken.incoming.onResponseError(broken.controller, new Error('broken'))
  assert.throws(() => broken.incoming.take(), /broken/)
  const ended = start()
  ended.incoming.onRequestStart(ended.controller)
  ended.incoming.onResponseStart(ended.controller, 200, {})
  ended.incoming.onResponseEnd()
  ended.incoming.destroy()
  assert.deepEqual([ended.notes, ended.incoming.take(), ended.incoming.over], [[], undefined, true])
})

test('the request stream is destroyed when the request fails', async () => {
  const sending = new Readable({ read() {} })
  const { incoming } = start({ sending })
  incoming.onResponseError(null, new Error('refused'))
  await assert.rejects(incoming.answered, /refused/)
  assert.equal(sending.destroyed, true)
})
