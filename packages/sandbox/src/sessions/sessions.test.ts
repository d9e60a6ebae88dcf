import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ToolError } from '@gantry/contract'
import type { SandboxJob } from '@gantry/core/internal/runtimes/runtime'
import { createRuntimes } from '../runtimes/create-runtimes.ts'
import {
  type FakeOptions,
  fakeRuntime,
  fakeTiming,
  never,
  printed,
  settled,
  untilAborted,
} from '../runtimes/fake.fixture.ts'
import { createSessions, type SessionsOptions } from './sessions.ts'

const ann = { principal: 'ann', tenant: 'acme' }
const bob = { principal: 'bob', tenant: 'acme' }
const otherAnn = { principal: 'ann', tenant: 'umbrella' }

function setUp(options: SessionsOptions = {}, fake: FakeOptions = {}) {
  const timing = fakeTiming()
  const runtime = fakeRuntime({ kind: 'process', ...fake })
  const runtimes = createRuntimes({ runtimes: [runtime], timing, random: () => 0, pool: false })
  const sessions = createSessions(runtimes, { timing, ...options })
  const open = (owner = ann) => sessions.open(owner, 'python', {}, never)
  return { timing, runtime, runtimes, sessions, open }
}

function codeIn(job: SandboxJob): string {
  return job.program.kind === 'code' ? job.program.code : ''
}

async function refusal(promise: Promise<unknown>): Promise<ToolError> {
  const error = await promise.then(
    () => assert.fail('it ran'),
    (thrown: unknown) => thrown,
  )
  assert.ok(ToolError.is(error), String(error))
  return error
}

test('runs in a session use the same sandbox, which closing the session disposes', async () => {
  const { sessions, runtime, open } = setUp()
  const { id, language, runtime: ran } = await open()
  assert.deepEqual([language, ran], ['python', { kind: 'process', isolation: 'namespaces' }])
  for (const code of ['x = 1', 'print(x)']) {
    const { outcome, attempts, ended } = await sessions.run(id, ann, code, { stdin: new Uint8Array(1) }, never)
    assert.deepEqual([new TextDecoder().decode(outcome.stdout.bytes), attempts, ended], [code, 1, undefined])
  }
  const [sandbox] = runtime.sandboxes
  assert.equal(sandbox?.spec.session, true)
  assert.deepEqual(sandbox?.jobs.map(codeIn), ['x = 1', 'print(x)'])
  assert.deepEqual(sandbox?.jobs[0]?.stdin, new Uint8Array(1))
  await sessions.close(id, ann)
  assert.deepEqual(runtime.live(), [])
  assert.equal(runtime.opens, 1)
})

test('a session of another owner gives the same error as an unknown session', async () => {
  const { sessions, open, runtime } = setUp()
  const { id } = await open()
  const unknown = await refusal(sessions.run('nothing', ann, 'x', {}, never))
  assert.equal(unknown.code, 'INPUT_INVALID')
  for (const stranger of [bob, otherAnn]) {
    for (const attempt of [sessions.run(id, stranger, 'x', {}, never), sessions.close(id, stranger)]) {
      const error = await refusal(attempt)
      assert.deepEqual(
        [error.code, error.message, error.details, error.effect, error.retryable],
        [unknown.code, unknown.message, unknown.details, unknown.effect, unknown.retryable],
      )
    }
    assert.deepEqual(sessions.list(stranger), [])
  }
  assert.equal(runtime.sandboxes[0]?.jobs.length, 0)
  assert.equal(sessions.list(ann).length, 1)
  await sessions.run(id, { ...ann }, 'x', {}, never)
  await sessions.closeAll()
})

test('session ids have 32 characters and are unique', async () => {
  const { sessions, open } = setUp({ maxPerPrincipal: 50, maxTotal: 50 })
  const ids = await Promise.all(Array.from({ length: 50 }, async () => (await open()).id))
  assert.equal(new Set(ids).size, 50)
  assert.ok(ids.every((id) => /^[\w-]{32}$/.test(id)))
  await sessions.closeAll()
})

test('concurrent runs of a session execute in order, a few wait, and the rest are refused', async () => {
  const gates: (() => void)[] = []
  const { sessions, open, runtime } = setUp(
    {},
    { run: (job) => new Promise((resolve) => void gates.push(() => resolve(printed(codeIn(job))))) },
  )
  const { id } = await open()
  const runs = Array.from({ length: 9 }, (_, count) => sessions.run(id, ann, String(count), {}, never))
  await settled()
  assert.deepEqual([runtime.sandboxes[0]?.jobs.length, sessions.list(ann)[0]?.state], [1, 'running'])
  assert.equal((await refusal(sessions.run(id, ann, '9', {}, never))).code, 'RATE_LIMITED')
  for (let count = 0; count < 9; count++) {
    gates.shift()?.()
    await settled()
  }
  await Promise.all(runs)
  assert.deepEqual(runtime.sandboxes[0]?.jobs.map(codeIn), ['0', '1', '2', '3', '4', '5', '6', '7', '8'])
  assert.equal(sessions.list(ann)[0]?.runs, 9)
  await sessions.closeAll()
})

test('an idle session expires with a reason; a run resets the idle time', async () => {
  const gate = Promise.withResolvers<void>()
  const { sessions, open, timing, runtime } = setUp(
    { idleMs: 1_000 },
    {
      run: async (job) => {
        if (codeIn(job) === 'long') await gate.promise
        return printed('')
      },
    },
  )
  const { id } = await open()
  for (let count = 0; count < 3; count++) {
    await timing.advance(900)
    await sessions.run(id, ann, 'short', {}, never)
  }
  const long = sessions.run(id, ann, 'long', {}, never)
  await timing.advance(5_000)
  gate.resolve()
  await long
  assert.equal(runtime.live().length, 1)
  await timing.advance(999)
  assert.deepEqual(
    sessions.list(ann).map(({ state, idleMs, runs }) => [state, idleMs, runs]),
    [['idle', 999, 4]],
  )
  await timing.advance(1)
  assert.deepEqual(runtime.live(), [])
  assert.deepEqual(sessions.list(ann), [])
  const error = await refusal(sessions.run(id, ann, 'short', {}, never))
  assert.equal(error.code, 'INPUT_INVALID')
  assert.equal(error.message, 'The session ended, because it was not used for 1000 ms; open a new one.')
  assert.deepEqual(
    error.details?.issues?.map(({ path }) => path),
    ['/session'],
  )
  assert.match((await refusal(sessions.run(id, bob, '', {}, never))).message, /There is no such session/)
  await timing.advance(1_000)
  assert.match((await refusal(sessions.run(id, ann, '', {}, never))).message, /There is no such session/)
  assert.equal(timing.pending, 0)
})

test('a session in use expires at its lifetime', async () => {
  const { sessions, open, timing, runtime } = setUp({ idleMs: 1_000, lifetimeMs: 2_500 })
  const { id } = await open()
  for (let count = 0; count < 3; count++) {
    await timing.advance(800)
    await sessions.run(id, ann, '', {}, never)
  }
  await timing.advance(100)
  assert.deepEqual(runtime.live(), [])
  assert.match((await refusal(sessions.run(id, ann, '', {}, never))).message, /because it reached its lifetime/)
  await sessions.closeAll()
})

test('a run that reaches a limit ends the session; its answer and the next run report the limit', async () => {
  const { sessions, open, runtime } = setUp(
    {},
    { run: (job) => printed('', codeIn(job) === 'bomb' ? 'memoryBytes' : undefined) },
  )
  const { id } = await open()
  const waiting = [sessions.run(id, ann, 'bomb', {}, never), sessions.run(id, ann, 'next', {}, never)] as const
  const answer = await waiting[0]
  assert.deepEqual([answer.outcome.hit, answer.ended], ['memoryBytes', 'a run in it reached its limit memoryBytes'])
  assert.deepEqual(runtime.live(), [])
  const error = await refusal(waiting[1])
  assert.equal(error.message, 'The session ended, because a run in it reached its limit memoryBytes; open a new one.')
  assert.equal(runtime.sandboxes[0]?.jobs.length, 1)
  await sessions.closeAll()
})

test('a run that ends its session answers after the sandbox is disposed', async () => {
  const gate = Promise.withResolvers<void>()
  const { sessions, open } = setUp({}, { run: () => printed('', 'wallMs'), onDispose: () => gate.promise })
  const { id } = await open()
  let heard = false
  const run = sessions.run(id, ann, '', {}, never).finally(() => {
    heard = true
  })
  await settled()
  assert.equal(heard, false)
  gate.resolve()
  assert.equal((await run).outcome.hit, 'wallMs')
})

test('the number of remembered ended sessions is bounded', async () => {
  const { sessions, open } = setUp({ maxTotal: 2 }, { run: () => printed('', 'pids') })
  const ids: string[] = []
  for (let count = 0; count < 3; count++) {
    const { id } = await open()
    await sessions.run(id, ann, '', {}, never)
    ids.push(id)
  }
  const messages = await Promise.all(
    ids.map(async (id) => (await refusal(sessions.run(id, ann, '', {}, never))).message),
  )
  assert.deepEqual(
    messages.map((message) => message.includes('its limit pids')),
    [false, true, true],
  )
  assert.match(messages[0] ?? '', /There is no such session/)
})

test('a broken sandbox, an interpreter that exits and a cancelled run end the session', async () => {
  const { sessions, open, runtime } = setUp(
    {},
    {
      run: (job, signal, sandbox) => {
        if (codeIn(job) === 'wait') return untilAborted(signal)
        if (codeIn(job) === 'break') throw new ToolError('BACKEND_FAILED', 'it broke')
        sandbox.die()
        return settled().then(() => printed(''))
      },
    },
  )
  const next = async (id: string): Promise<string> => (await refusal(sessions.run(id, ann, '', {}, never))).message
  const broken = await open()
  assert.equal((await refusal(sessions.run(broken.id, ann, 'break', {}, never))).code, 'BACKEND_FAILED')
  assert.match(await next(broken.id), /because its sandbox broke/)
  const exited = await open()
  assert.equal((await sessions.run(exited.id, ann, 'exit', {}, never)).ended, 'its interpreter ended')
  assert.match(await next(exited.id), /because its interpreter ended/)
  const cancelled = await open()
  const controller = new AbortController()
  const run = sessions.run(cancelled.id, ann, 'wait', {}, controller.signal)
  await settled()
  controller.abort(new Error('gone'))
  await assert.rejects(run, /gone/)
  assert.match(await next(cancelled.id), /because a run in it was cancelled/)
  const dead = await open()
  runtime.live()[0]?.die()
  await settled()
  assert.match(await next(dead.id), /because its interpreter ended/)
  assert.deepEqual(runtime.live(), [])
  await sessions.closeAll()
})

test('cancelling a waiting run does not end the session', async () => {
  const gate = Promise.withResolvers<void>()
  const { sessions, open, runtime } = setUp({}, { run: () => gate.promise.then(() => printed('')) })
  const { id } = await open()
  const first = sessions.run(id, ann, '1', {}, never)
  const controller = new AbortController()
  const second = sessions.run(id, ann, '2', {}, controller.signal)
  await settled()
  controller.abort(new Error('gone'))
  await assert.rejects(second, /gone/)
  gate.resolve()
  await first
  await sessions.run(id, ann, '3', {}, never)
  assert.deepEqual(runtime.sandboxes[0]?.jobs.map(codeIn), ['1', '3'])
  await sessions.closeAll()
})

test('session limits per principal and in total count opening sessions and not ended ones', async () => {
  const { sessions, open } = setUp({ maxPerPrincipal: 2, maxTotal: 3 })
  const opening = [open(), open()]
  assert.match((await refusal(open())).message, /2 sessions of this caller are open/)
  const [first] = await Promise.all(opening)
  assert.equal((await refusal(open())).code, 'RATE_LIMITED')
  await open(otherAnn)
  assert.match((await refusal(open(bob))).message, /3 sessions are open/)
  await sessions.close(first?.id ?? '', ann)
  await open(bob)
  await sessions.closeAll()
  await open()
  await sessions.closeAll()
})

test('principals of one tenant at their session limits leave sessions for other tenants', async () => {
  const { sessions, open } = setUp()
  const crowd = Array.from({ length: 8 }, (_, index) => ({ principal: `p${index}`, tenant: 'acme' }))
  const opened = await Promise.allSettled(crowd.flatMap((owner) => Array.from({ length: 8 }, () => open(owner))))
  assert.equal(opened.filter(({ status }) => status === 'fulfilled').length, 48)
  for (let count = 0; count < 8; count += 1) await open(otherAnn)
  assert.equal(sessions.list(otherAnn).length, 8)
  assert.equal(sessions.size, 56, 'no session was lost')
  await sessions.closeAll()
})

test('at the total limit, the tenant with the most sessions loses its least recently used idle session', async () => {
  const { sessions, open, timing } = setUp(
    { maxTotal: 3, maxPerTenant: 3 },
    { run: (_job, signal) => untilAborted(signal) },
  )
  const [busy, oldest, newest] = [await open(), await open(bob), await open(bob)]
  const run = sessions.run(busy.id, ann, 'x', {}, never)
  run.catch(() => undefined)
  await timing.advance(10)
  const theirs = await open(otherAnn)
  const { message } = await refusal(sessions.run(oldest.id, bob, 'x', {}, never))
  assert.match(message, /its slot was needed/)
  assert.deepEqual(
    sessions.list(bob).map(({ id }) => id),
    [newest.id],
  )
  assert.equal(sessions.info(theirs.id, otherAnn).state, 'idle')
  assert.match((await refusal(open(bob))).message, /3 sessions are open/, 'and has no more of them than others')
  await sessions.closeAll()
})

test('a session that fails to open holds no slot', async () => {
  const { sessions, open, runtime } = setUp(
    { maxPerPrincipal: 1 },
    {
      onOpen: () => {
        if (runtime.opens <= 3) throw new Error('no memory')
      },
    },
  )
  assert.equal((await refusal(open())).code, 'SANDBOX_INIT_FAILED')
  await open()
  await sessions.closeAll()
})

test('closing a session cancels its running program; closing all sessions also cancels those that are opening', async () => {
  const gate = Promise.withResolvers<void>()
  const { sessions, open, runtime, timing } = setUp(
    {},
    {
      opensLate: true,
      run: (_, signal) => untilAborted(signal),
      onOpen: () => (runtime.opens === 3 ? gate.promise : undefined),
    },
  )
  const { id } = await open()
  const run = refusal(sessions.run(id, ann, '', {}, never))
  await settled()
  await sessions.close(id, ann)
  assert.equal((await run).code, 'CANCELLED')
  await open()
  const third = refusal(open())
  await settled()
  let closed = false
  const closing = sessions.closeAll().then(() => {
    closed = true
  })
  await settled()
  assert.equal(closed, false)
  gate.resolve()
  await closing
  assert.equal((await third).code, 'CANCELLED')
  assert.deepEqual([runtime.live(), sessions.list(ann)], [[], []])
  await timing.advance(600_000)
  assert.equal(timing.pending, 0)
})

test('a session whose caller aborts as it opens is disposed', async () => {
  const controller = new AbortController()
  const { sessions, runtime } = setUp()
  const opening = sessions.open(ann, 'python', {}, controller.signal)
  while (runtime.live().length === 0) await Promise.resolve()
  controller.abort(new Error('gone'))
  await assert.rejects(opening, /gone/)
  assert.deepEqual([runtime.live(), sessions.list(ann)], [[], []])
})

test('closing the runtimes ends the sessions, and invalid options are refused', async () => {
  const { sessions, open, runtimes } = setUp()
  const { id } = await open()
  await runtimes.close()
  assert.match((await refusal(sessions.run(id, ann, '', {}, never))).message, /because its interpreter ended/)
  assert.throws(() => createSessions(runtimes, { idleMs: 0 }), { code: 'CONFIG_INVALID' })
  assert.throws(() => createSessions(runtimes, { idle: 1 } as object), { code: 'CONFIG_INVALID' })
})
