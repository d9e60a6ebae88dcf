import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readlinkSync, rmSync, utimesSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { createExecutor } from '@gantry/tools'
import { createSlots } from '../resilience/slots.ts'
import { endless } from './compiler.fixture.ts'
import { compile } from './compiler.ts'

/** A folder for temporary files that only this test has. */
function ownFolder(t: TestContext): string {
  const before = process.env.TMPDIR
  const own = mkdtempSync(join(tmpdir(), 'gantry-test-'))
  process.env.TMPDIR = own
  t.after(() => {
    if (before === undefined) delete process.env.TMPDIR
    else process.env.TMPDIR = before
    rmSync(own, { recursive: true, force: true })
  })
  return own
}

/** Processes that work in a folder or below it. */
function processesIn(folder: string): number[] {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
  return pids.map(Number).filter((pid) => {
    try {
      return readlinkSync(`/proc/${pid}/cwd`).startsWith(folder)
    } catch {
      return false
    }
  })
}

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await pause(20)
}

const onLinux = { skip: existsSync('/proc/self/cwd') ? false : 'needs /proc' }

test('a compiler dies with the process that started it, and leaves no folder behind', onLinux, async (t) => {
  const own = ownFolder(t)
  const starter = spawn(process.execPath, [join(import.meta.dirname, 'compiler.fixture.ts')], { stdio: 'ignore' })
  t.after(() => {
    for (const pid of processesIn(own)) process.kill(pid, 'SIGKILL')
  })
  // The keeper, what waits for the end of the pipe, and the compiler.
  await until(() => processesIn(own).length >= 3)
  starter.kill('SIGKILL')
  await once(starter, 'exit')
  await until(() => processesIn(own).length === 0)
  assert.deepEqual(readdirSync(own), [])
})

test('as many compilers run at once as there are processors, and others wait within their time', onLinux, async (t) => {
  const own = ownFolder(t)
  const stop = new AbortController()
  t.after(() => stop.abort())
  const turns = createSlots()
  const begin = (signal: AbortSignal) => compile({ name: 'main.ts', text: endless }, '', { turns, signal })
  const most = availableParallelism()
  const running = Array.from({ length: most }, () => begin(stop.signal))
  const ended = Promise.allSettled(running)
  await until(() => readdirSync(own).length === most)
  const waiter = new AbortController()
  const waiting = begin(waiter.signal)
  const { signal } = new AbortController()
  const quick = { name: 'main.ts', text: 'export {}' } as const
  // One that has turns of its own runs meanwhile, which is time enough for the other to begin.
  await compile(quick, '', { turns: createSlots(), signal })
  assert.equal(readdirSync(own).length, most)
  waiter.abort(new Error('no time left'))
  await assert.rejects(waiting, { message: 'no time left' })
  const next = compile(quick, '', { turns, signal })
  stop.abort(new Error('called off'))
  assert.deepEqual(await next, [])
  assert.ok((await ended).every(({ status }) => status === 'rejected'))
  await until(() => processesIn(own).length === 0)
  assert.deepEqual(readdirSync(own), [])
})

test('folders that nobody works in any more are removed by the next check, and others are left alone', async (t) => {
  const own = ownFolder(t)
  for (const name of ['gantry-check-old', 'gantry-check-new', 'other-old']) mkdirSync(join(own, name))
  const longAgo = new Date(Date.now() - 3_600_000)
  for (const name of ['gantry-check-old', 'other-old']) utimesSync(join(own, name), longAgo, longAgo)
  const { signal } = new AbortController()
  await compile({ name: 'main.ts', text: 'export {}' }, '', { turns: createSlots(), signal })
  assert.deepEqual(readdirSync(own).sort(), ['gantry-check-new', 'other-old'])
})

test('a check takes of the time of its program, and no more than that', async () => {
  const gantry = createExecutor()
  const { error, status } = await gantry.code(endless, { check: true, limits: { wallMs: 500 } })
  assert.deepEqual(
    [status, error?.code, error?.effect, error?.details?.limit],
    ['timeout', 'TIMEOUT', 'none', 'wallMs'],
  )
  assert.match(error?.message ?? '', /check/)
  await gantry.close()
})
