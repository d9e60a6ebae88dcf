import assert from 'node:assert/strict'
import { afterEach, test } from 'node:test'
import { createDeadlines } from '../resilience/deadlines.ts'
import { createRunDeadlines, type Run, type RunDeadlines } from './run.ts'

/** The parts of a run that deadlines use. */
function probe(): Run & { ended: boolean } {
  const run = { ended: false, wait: undefined, startedMonotonic: performance.now(), timeoutMs: () => 60_000 }
  return run as unknown as Run & { ended: boolean }
}

const inner = createDeadlines<Run>()
const waiting: Run[] = []
afterEach(() => {
  for (const run of waiting.splice(0)) inner.delete(run)
})

function begin(deadlines: RunDeadlines, run: Run): void {
  waiting.push(run)
  deadlines.begin(run)
}

function end(deadlines: RunDeadlines, run: Run & { ended: boolean }): void {
  run.ended = true
  deadlines.delete(run)
}

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

test('a run joins a deadline queue only if it is still waiting after the current turn', async () => {
  const deadlines = createRunDeadlines(inner)
  const [brief, lasting, last] = [probe(), probe(), probe()]
  for (const run of [brief, lasting, last]) begin(deadlines, run)
  end(deadlines, brief)
  end(deadlines, last)
  await Promise.resolve()
  assert.deepEqual(inner.waiters(), [])
  await nextTurn()
  assert.deepEqual(inner.waiters(), [lasting])
  end(deadlines, lasting)
  assert.deepEqual(inner.waiters(), [])
})

test('runs that begin to wait in later turns join a deadline queue', async () => {
  const deadlines = createRunDeadlines(inner)
  const [early, late] = [probe(), probe()]
  begin(deadlines, early)
  await nextTurn()
  begin(deadlines, late)
  await nextTurn()
  assert.deepEqual(inner.waiters(), [early, late])
})

test('the list of waiters includes runs that began to wait in the current turn', () => {
  const deadlines = createRunDeadlines(inner)
  const run = probe()
  begin(deadlines, run)
  assert.deepEqual(deadlines.waiters(), [run])
})

test('a run that waits for an approval keeps the deadline of that wait', async () => {
  const deadlines = createRunDeadlines(inner)
  const run = probe()
  begin(deadlines, run)
  deadlines.add(run, 5_000)
  await nextTurn()
  assert.equal(run.wait?.queue.ms, 5_000)
})

test('a long turn does not collect runs without limit', () => {
  const deadlines = createRunDeadlines(inner)
  const runs = Array.from({ length: 200 }, probe)
  for (const run of runs) begin(deadlines, run)
  assert.ok(inner.waiters().length >= 100)
  assert.deepEqual(deadlines.waiters(), runs)
})
