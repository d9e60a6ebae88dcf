import assert from 'node:assert/strict'
import { performance } from 'node:perf_hooks'
import { test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import type { ProgramRequest, ProgramResponse } from '@gantry/core/internal/runtimes/runtime'
import fc from 'fast-check'
import { createGuestChannel, type GuestChannel } from './guest-channel.ts'
import { createHostChannel, type RunningProgram } from './host-channel.ts'
import { writeResponse } from './messages.ts'

/** Owner and thread in one, so that nothing happens but in the order of the test; a clock that runs when it is read. */
function opened() {
  const asked: ProgramRequest[] = []
  let running: RunningProgram | undefined
  let [runs, time] = [0, 0]
  const post = createHostChannel(() => running)
  const now = (): number => {
    time += 1
    return time
  }
  return {
    post,
    asked,
    close() {
      post.close()
      post.start.port.close()
    },
    /** Begins a run; the one before has ended, as the owner hears with its last message. */
    begin() {
      post.forget()
      runs += 1
      const run = runs
      asked.length = 0
      const line = createGuestChannel(run, post.start, post.collect, now)
      const answer = (given: ProgramResponse): void => {
        if (running !== asking) return
        asking.given += 1
        post.deliver(writeResponse(run, given))
      }
      const gateway = { ask: (requests: readonly ProgramRequest[]) => void asked.push(...requests) }
      const asking: RunningProgram = {
        gateway,
        answer,
        fail: assert.ifError,
        asked: 0,
        given: 0,
        delivered: -1,
        held: [],
        heldBytes: 0,
      }
      running = asking
      return { line, answer }
    },
    /** One that is woken within it goes on. */
    rest: (line: GuestChannel, said: string) => {
      line.take(said)
      return line.rest(time + 3)
    },
  }
}

const saying = (count: number): string => `p${'\nsleep {}'.repeat(count)}`
const answerTo = ({ number }: ProgramRequest): ProgramResponse => ({ number, ok: true, text: `"${number}"` })

test('responses that an earlier run left in the mailbox, or that did not fit, do not delay the next run’s response', () => {
  const { begin, rest, asked, post, close } = opened()
  for (let run = 0; run < 5; run += 1) {
    const { line, answer } = begin()
    rest(line, saying(300))
    // An owner that polls is not woken.
    post.collect()
    const all = asked.splice(0)
    assert.equal(all.length, 300)
    for (const request of all) answer(answerTo(request))
    assert.equal(line.next()?.number, 1, `run ${run}`)
  }
  close()
})

test('a gateway request of an ended run is not attributed to the next run', () => {
  const { begin, rest, asked, post, close } = opened()
  const first = begin()
  rest(first.line, saying(1))
  first.answer(answerTo({ number: 1, kind: 'sleep', text: '{}' }))
  // The owner polls now, so the thread does not wake it for this.
  Atomics.store(post.start.watched, 0, 1)
  assert.equal(rest(first.line, saying(2))?.number, 1)
  const second = begin()
  post.collect()
  assert.deepEqual(asked, [])
  rest(second.line, saying(1))
  post.collect()
  assert.deepEqual(
    asked.map(({ number }) => number),
    [1],
  )
  close()
})

test('requests made while responses are unread are delivered at the next quiescence, complete and in order', () => {
  const { begin, rest, asked, post, close } = opened()
  const { line, answer } = begin()
  rest(line, saying(3))
  for (const request of asked.splice(0)) answer(answerTo(request))
  const long = JSON.stringify('x'.repeat(2_000_000))
  for (const number of [1, 2, 3]) {
    assert.equal(line.next()?.number, number)
    line.take(`p\nsleep ${number}\nsleep ${long}`)
    post.collect()
    assert.deepEqual(asked, [])
  }
  assert.equal(line.next(), undefined)
  line.rest(0)
  post.collect()
  assert.deepEqual(
    asked.map(({ number, text }) => [number, text]),
    [1, 2, 3].flatMap((delivered, index) => [
      [4 + index * 2, String(delivered)],
      [5 + index * 2, long],
    ]),
  )
  close()
})

test('the host does not poll a program that has read every response, and a sleeping host is woken', async (t) => {
  // The clock stands, so no poll ends by its time.
  t.mock.method(performance, 'now', () => 0)
  const { begin, rest, asked, post, close } = opened()
  const { line, answer } = begin()
  rest(line, saying(1))
  for (let number = 1; number <= 3; number += 1) {
    const [request] = asked.splice(0)
    assert.equal(request?.number, number)
    answer(answerTo({ number, kind: 'sleep', text: '{}' }))
    await turn()
    assert.equal(Atomics.load(post.start.watched, 0), 1, 'while an answer is on its way')
    assert.equal(line.next()?.number, number)
    rest(line, saying(1))
    while (Atomics.load(post.start.watched, 0) === 1) await turn()
  }
  close()
})

test('for random requests and unread responses over many runs, every sent response is read', () => {
  const step = fc.record({ ask: fc.nat({ max: 80 }), answers: fc.nat({ max: 80 }), reads: fc.nat({ max: 80 }) })
  const runs = fc.array(fc.array(step, { maxLength: 6 }), { minLength: 1, maxLength: 6 })
  fc.assert(
    fc.property(runs, (all) => {
      const { begin, rest, asked, post, close } = opened()
      try {
        for (const steps of all) {
          const { line, answer } = begin()
          let [given, delivered] = [0, 0]
          const hear = (heard: ReturnType<GuestChannel['next']>): boolean => {
            if (heard === undefined) return false
            delivered += 1
            assert.equal(heard.number, delivered)
            return true
          }
          for (const { ask, answers, reads } of steps) {
            hear(rest(line, saying(ask)))
            post.collect()
            for (const request of asked.splice(0, answers)) {
              answer(answerTo(request))
              given += 1
            }
            for (let read = 0; read < reads && hear(line.next()); read += 1);
          }
          // The thread comes to rest without a new request.
          while (delivered < given) assert.ok(hear(line.next() ?? rest(line, 'p')), `${delivered} of ${given}`)
        }
      } finally {
        close()
      }
    }),
  )
})
