import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { isFault } from '@gantry/core/internal/resilience/circuit'
import { didNotStart } from '../backends/sandboxed.ts'
import { limits } from './planner.fixture.ts'
import { createUserQuotas, type QuotaFigures } from './user-quotas.ts'

const figures: QuotaFigures = {
  epollWatches: 1_000_000,
  processes: 4_096,
  pendingSignals: 31_000,
  openFiles: 20_000,
  pipePages: Number.POSITIVE_INFINITY,
}
const one = (): number => 1

test('concurrent sandboxes together get at most half of the per-user kernel quotas', () => {
  const quotas = createUserQuotas(one, { ...figures, processes: 100_000, pendingSignals: 100_000_000 })
  const shares = []
  for (;;) {
    try {
      shares.push(quotas.take(limits))
    } catch (error) {
      assert.equal((error as { code?: string }).code, 'RATE_LIMITED')
      break
    }
  }
  const watches = shares.reduce((sum, { epollWatches }) => sum + epollWatches, 0)
  assert.ok(watches <= 500_000, `${watches} watches`)
  assert.ok(shares.length > 100, `${shares.length} sandboxes at once`)
  assert.ok(shares.every(({ epollWatches }) => epollWatches >= 256))
})

test('a released sandbox returns its quota to the next one', () => {
  const quotas = createUserQuotas(one, { ...figures, processes: 400 })
  const [first, second] = [quotas.take(limits), quotas.take(limits)]
  assert.throws(() => quotas.take(limits), /too few processes/)
  first.release()
  quotas.take(limits).release()
  second.release()
})

test('used-up quotas are a temporary refusal and no fault of the sandbox, unless nothing runs', () => {
  const quotas = createUserQuotas(one, { ...figures, processes: 250 })
  const running = quotas.take(limits)
  const refusal = thrown(() => quotas.take(limits))
  assert.deepEqual([refusal.code, refusal.retryable, refusal.effect], ['RATE_LIMITED', true, 'none'])
  assert.equal(typeof refusal.details?.retryAfterMs, 'number')
  assert.deepEqual([isFault(refusal), didNotStart(refusal)], [false, false])
  running.release()
  quotas.take(limits).release()
  const never = thrown(() => createUserQuotas(() => 100, { ...figures, processes: 250 }).take(limits))
  assert.equal(never.code, 'SANDBOX_INIT_FAILED')
})

function thrown(work: () => unknown): ToolError {
  try {
    work()
  } catch (error) {
    if (ToolError.is(error)) return error
  }
  return assert.fail('it throws no ToolError')
}

test('executors of one user divide the per-user quota between them', () => {
  const alone = createUserQuotas(one, figures).take(limits)
  const beside = createUserQuotas(() => 4, figures).take(limits)
  assert.equal(beside.epollWatches, Math.floor(alone.epollWatches / 4))
})

test('a sandbox that could use more than half of its user’s processes is refused with a remedy', () => {
  const quotas = createUserQuotas(one, figures)
  assert.equal(quotas.refuses(limits), undefined)
  assert.match(quotas.refuses({ ...limits, pids: 4_000 })?.remedy ?? '', /ulimit -u/)
})

test('the open-file limit of programs leaves the host enough in-flight descriptors', () => {
  const filesOf = (openFiles: number): number => createUserQuotas(one, { ...figures, openFiles }).take(limits).openFiles
  assert.deepEqual([filesOf(1_024), filesOf(2_000), filesOf(1_000_000)], [256, 500, 1_024])
})

test('user quotas are refused when a hard limit on pipe pages lets programs exhaust their user’s pipes', () => {
  assert.throws(() => createUserQuotas(one, { ...figures, pipePages: 65_536 }), {
    code: 'RUNTIME_UNAVAILABLE',
    message: /fs\.pipe-user-pages-hard/,
  })
})

test('quotas that the kernel does not set limit nothing', () => {
  const none = Number.POSITIVE_INFINITY
  const quotas = createUserQuotas(one, {
    epollWatches: none,
    processes: none,
    pendingSignals: none,
    openFiles: none,
    pipePages: none,
  })
  assert.equal(quotas.take(limits).epollWatches, Number.MAX_SAFE_INTEGER)
})
