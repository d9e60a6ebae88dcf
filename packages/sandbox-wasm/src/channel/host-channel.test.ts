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
        post.tell(writeResponse(run, given))
      }
      const gateway = { ask: (questions: readonly ProgramRequest[]) => void asked.push(...questions) }
      const asking: RunningProgram = {
        gateway,
        answer,
        fail: assert.ifError,
        asked: 0,
        given: 0,
        told: -1,
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

test('what an earlier run left behind, in the places and behind them, does not keep the next from its answer', () => {
  const { begin, rest, asked, post, close } = opened()
  for (let run = 0; run < 5; run += 1) {
    const { line, answer } = begin()
    rest(line, saying(300))
    // An owner who looks by himself is not woken.
    post.collect()
    const all = asked.splice(0)
    assert.equal(all.length, 300)
    for (const question of all) answer(answerTo(question))
    assert.equal(line.next()?.number, 1, `run ${run}`)
  }
  close()
})

test('a question of a run that has ended is not asked in the name of the next', () => {
  const { begin, rest, asked, post, close } = opened()
  const first = begin()
  rest(first.line, saying(1))
  first.answer(answerTo({ number: 1, kind: 'sleep', text: '{}' }))
  // The owner looks by itself now, so that the thread does not wake it for this.
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

test('what is asked while answers are there is handed on at the rest after them, whole and in its order', () => {
  const { begin, rest, asked, post, close } = opened()
  const { line, answer } = begin()
  rest(line, saying(3))
  for (const question of asked.splice(0)) answer(answerTo(question))
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
    [1, 2, 3].flatMap((told, index) => [
      [4 + index * 2, String(told)],
      [5 + index * 2, long],
    ]),
  )
  close()
})

test('nobody looks for questions of a program that was told all it was given and waits; who sleeps is woken', async (t) => {
  // No look is ever over because it took too long.
  t.mock.method(performance, 'now', () => 0)
  const { begin, rest, asked, post, close } = opened()
  const { line, answer } = begin()
  rest(line, saying(1))
  for (let number = 1; number <= 3; number += 1) {
    const [question] = asked.splice(0)
    assert.equal(question?.number, number)
    answer(answerTo({ number, kind: 'sleep', text: '{}' }))
    await turn()
    assert.equal(Atomics.load(post.start.watched, 0), 1, 'while an answer is on its way')
    assert.equal(line.next()?.number, number)
    rest(line, saying(1))
    while (Atomics.load(post.start.watched, 0) === 1) await turn()
  }
  close()
})

test('whatever is asked, answered and left behind over many runs, who waits for an answer that was given is told it', () => {
  const step = fc.record({ ask: fc.nat({ max: 80 }), answers: fc.nat({ max: 80 }), reads: fc.nat({ max: 80 }) })
  const runs = fc.array(fc.array(step, { maxLength: 6 }), { minLength: 1, maxLength: 6 })
  fc.assert(
    fc.property(runs, (all) => {
      const { begin, rest, asked, post, close } = opened()
      try {
        for (const steps of all) {
          const { line, answer } = begin()
          let [given, told] = [0, 0]
          const hear = (heard: ReturnType<GuestChannel['next']>): boolean => {
            if (heard === undefined) return false
            told += 1
            assert.equal(heard.number, told)
            return true
          }
          for (const { ask, answers, reads } of steps) {
            hear(rest(line, saying(ask)))
            post.collect()
            for (const question of asked.splice(0, answers)) {
              answer(answerTo(question))
              given += 1
            }
            for (let read = 0; read < reads && hear(line.next()); read += 1);
          }
          // It waits for the rest, with nothing new to ask.
          while (told < given) assert.ok(hear(line.next() ?? rest(line, 'p')), `${told} of ${given}`)
        }
      } finally {
        close()
      }
    }),
  )
})
