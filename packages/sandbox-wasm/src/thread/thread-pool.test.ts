import assert from 'node:assert/strict'
import { availableParallelism } from 'node:os'
import { after, test } from 'node:test'
import type { ThreadJob } from '../channel/messages.ts'
import { limits } from '../run.fixture.ts'
import { ThreadLost } from './thread.ts'
import { createThreadPool } from './thread-pool.ts'

const signal = AbortSignal.timeout(60_000)
const silent = (): void => undefined

function jobOf(code: string): ThreadJob {
  return {
    program: { kind: 'code', language: 'javascript', code },
    limits,
    env: {},
    stdin: new Uint8Array(0),
    files: new Map(),
    collect: undefined,
    deterministic: undefined,
    session: false,
  }
}

function threadsOf(most: number): ReturnType<typeof createThreadPool> {
  const threads = createThreadPool(() => most)
  after(() => threads.close())
  return threads
}

test('a returned thread is reused', async () => {
  const threads = threadsOf(2)
  const thread = await threads.take(signal)
  assert.equal((await thread.run(jobOf('return 1'), silent)).exitCode, 0)
  threads.give(thread)
  assert.equal(await threads.take(signal), thread)
})

test('a caller that comes while the only thread is preparing gets a second one, and the two alternate', {
  skip: availableParallelism() < 2 && 'One processor has one thread.',
}, async () => {
  const threads = threadsOf(2)
  const first = await threads.take(signal)
  let other = first
  for (let turn = 0; other === first; turn += 1) {
    threads.give(other)
    other = await threads.take(signal)
    assert.equal((await other.run(jobOf(`return ${turn}`), silent)).exitCode, 0)
  }
  threads.give(other)
  assert.equal(await threads.take(signal), first)
  assert.equal(await threads.take(signal), other)
})

test('a killed thread is replaced, and its job rejects with ThreadLost', async () => {
  const threads = threadsOf(1)
  const thread = await threads.take(signal)
  const running = thread.run(jobOf('while (true);'), silent)
  const lost = assert.rejects(running, ThreadLost)
  await thread.kill()
  await lost
  threads.give(thread)
  const next = await threads.take(signal)
  assert.notEqual(next, thread)
  assert.equal((await next.run(jobOf(''), silent)).exitCode, 0)
})

test('when all threads are in use the next caller waits for one, unless it aborts', async () => {
  const threads = threadsOf(1)
  const thread = await threads.take(signal)
  const impatient = new AbortController()
  const given = assert.rejects(threads.take(impatient.signal), /too long/)
  const patient = threads.take(signal)
  impatient.abort(new Error('too long'))
  await given
  threads.give(thread)
  assert.equal(await patient, thread)
})

test('a caller that waits for a thread that dies gets a new one', async () => {
  const threads = threadsOf(1)
  const thread = await threads.take(signal)
  const waiting = threads.take(signal)
  await thread.kill()
  threads.give(thread)
  assert.notEqual(await waiting, thread)
})

test('after close no thread is given out, and waiting callers are refused', async () => {
  const threads = createThreadPool(() => 1)
  const thread = await threads.take(signal)
  const waiting = assert.rejects(threads.take(signal), { code: 'SANDBOX_INIT_FAILED' })
  await threads.close()
  await waiting
  await thread.ended
  await assert.rejects(threads.take(signal), { code: 'SANDBOX_INIT_FAILED' })
})
