import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ThreadJob, ThreadResult } from '../channel/messages.ts'
import { type Scripts, warmUp } from '../quickjs/scripts.ts'
import { limits } from '../run.fixture.ts'
import { startThread, type Thread } from '../thread/thread.ts'

const nothing: ThreadResult = {
  exitCode: 0,
  hit: undefined,
  totals: { stdout: 0, stderr: 0, channel: 0 },
  files: new Map(),
  skipped: [],
  cpuMs: 0,
  memoryPeakBytes: 0,
  spent: false,
}

/** Scripts that note what is asked of them. */
function noting(): { readonly scripts: Scripts; readonly notes: string[] } {
  const notes: string[] = []
  const run = async (): Promise<ThreadResult> => {
    notes.push('run')
    return nothing
  }
  const prepare = async (): Promise<void> => void notes.push('prepare')
  return { scripts: { run, prepare }, notes }
}

test('each warm-up round runs a program and then prepares a fresh context', async () => {
  const { scripts, notes } = noting()
  await warmUp(
    scripts,
    () => 0,
    () => false,
  )
  assert.ok(notes.length > 2)
  assert.ok(notes.every((note, index) => note === (index % 2 === 0 ? 'run' : 'prepare')))
  assert.equal(notes.at(-1), 'prepare')
})

test('a job that arrives during warm-up waits for one round at most', async () => {
  const { scripts, notes } = noting()
  await warmUp(
    scripts,
    () => 0,
    () => notes.length >= 4,
  )
  assert.deepEqual(notes, ['run', 'prepare', 'run', 'prepare'])
})

const code = `globalThis.left = (globalThis.left ?? 0) + 1
return [left, Math.random(), Date.now(), performance.now(), Object.getOwnPropertyNames(globalThis)]`

/** All that a program says in a thread, and what became of it. */
async function said(thread: Thread): Promise<unknown> {
  const pieces: string[] = []
  const job: ThreadJob = {
    program: { kind: 'code', language: 'javascript', code },
    limits,
    env: {},
    stdin: new Uint8Array(0),
    files: new Map(),
    collect: { files: 9, bytes: 9_999 },
    deterministic: { seed: 7, nowMs: 1_000 },
    session: false,
  }
  const { cpuMs, ...result } = await thread.run(job, (stream, bytes) => pieces.push(`${stream} ${Buffer.from(bytes)}`))
  return { pieces, result }
}

test('a program gives the same output and result in a thread with and without a completed warm-up', async () => {
  const [early, late] = [startThread(), startThread()]
  try {
    const first = said(early)
    await late.practised
    assert.deepEqual(await said(late), await first)
    assert.match(JSON.stringify(await first), /\[1,0\.\d/)
  } finally {
    await Promise.all([early.kill(), late.kill()])
  }
})
