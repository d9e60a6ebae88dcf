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

/** A temporary folder of this test. */
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

/** Processes whose working directory is in a folder. */
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

test('a compiler ends with the process that started it, and leaves no folder', onLinux, async (t) => {
  const own = ownFolder(t)
  const starter = spawn(process.execPath, [join(import.meta.dirname, 'compiler.fixture.ts')], { stdio: 'ignore' })
  t.after(() => {
    for (const pid of processesIn(own)) process.kill(pid, 'SIGKILL')
  })
  // The keeper, its reader of the pipe, and the compiler.
  await until(() => processesIn(own).length >= 3)
  starter.kill('SIGKILL')
  await once(starter, 'exit')
  await until(() => processesIn(own).length === 0)
  assert.deepEqual(readdirSync(own), [])
})

test('at most one compiler per processor runs at a time, and a waiting compile can be aborted', onLinux, async (t) => {
  const own = ownFolder(t)
  const stop = new AbortController()
  t.after(() => stop.abort())
  const slots = createSlots()
  const begin = (signal: AbortSignal) => compile({ name: 'main.ts', text: endless }, '', { slots, signal })
  const most = availableParallelism()
  const running = Array.from({ length: most }, () => begin(stop.signal))
  const ended = Promise.allSettled(running)
  await until(() => readdirSync(own).length === most)
  const waiter = new AbortController()
  const waiting = begin(waiter.signal)
  const { signal } = new AbortController()
  const quick = { name: 'main.ts', text: 'export {}' } as const
  // A compile with separate slots gives the waiting one enough time to start, if it could.
  await compile(quick, '', { slots: createSlots(), signal })
  assert.equal(readdirSync(own).length, most)
  waiter.abort(new Error('no time left'))
  await assert.rejects(waiting, { message: 'no time left' })
  const next = compile(quick, '', { slots, signal })
  stop.abort(new Error('called off'))
  assert.deepEqual(await next, [])
  assert.ok((await ended).every(({ status }) => status === 'rejected'))
  await until(() => processesIn(own).length === 0)
  assert.deepEqual(readdirSync(own), [])
})

test('a check removes stale folders of earlier checks and no others', async (t) => {
  const own = ownFolder(t)
  for (const name of ['gantry-check-old', 'gantry-check-new', 'other-old']) mkdirSync(join(own, name))
  const longAgo = new Date(Date.now() - 3_600_000)
  for (const name of ['gantry-check-old', 'other-old']) utimesSync(join(own, name), longAgo, longAgo)
  const { signal } = new AbortController()
  await compile({ name: 'main.ts', text: 'export {}' }, '', { slots: createSlots(), signal })
  assert.deepEqual(readdirSync(own).sort(), ['gantry-check-new', 'other-old'])
})

test('the wallMs of a program limits its check', async () => {
  const gantry = createExecutor()
  const { error, status } = await gantry.code(endless, { check: true, limits: { wallMs: 500 } })
  assert.deepEqual(
    [status, error?.code, error?.effect, error?.details?.limit],
    ['timeout', 'TIMEOUT', 'none', 'wallMs'],
  )
  assert.match(error?.message ?? '', /check/)
  await gantry.close()
})
