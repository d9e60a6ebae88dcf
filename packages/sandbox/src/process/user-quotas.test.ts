import assert from 'node:assert/strict'
import { test } from 'node:test'
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

test('all sandboxes at once get at most half of what the kernel counts by user', () => {
  const quotas = createUserQuotas(one, { ...figures, processes: 100_000, pendingSignals: 100_000_000 })
  const shares = []
  for (;;) {
    try {
      shares.push(quotas.take(limits))
    } catch (error) {
      assert.equal((error as { code?: string }).code, 'SANDBOX_INIT_FAILED')
      break
    }
  }
  const watches = shares.reduce((sum, { epollWatches }) => sum + epollWatches, 0)
  assert.ok(watches <= 500_000, `${watches} watches`)
  assert.ok(shares.length > 100, `${shares.length} sandboxes at once`)
  assert.ok(shares.every(({ epollWatches }) => epollWatches >= 256))
})

test('what a sandbox had is there for the next one when it is gone', () => {
  const quotas = createUserQuotas(one, { ...figures, processes: 400 })
  const [first, second] = [quotas.take(limits), quotas.take(limits)]
  assert.throws(() => quotas.take(limits), /too few processes/)
  first.release()
  quotas.take(limits).release()
  second.release()
})

test('executors of one user share the half between them', () => {
  const alone = createUserQuotas(one, figures).take(limits)
  const beside = createUserQuotas(() => 4, figures).take(limits)
  assert.equal(beside.epollWatches, Math.floor(alone.epollWatches / 4))
})

test('a sandbox that could take more than half of the processes of its user is refused with what to do', () => {
  const quotas = createUserQuotas(one, figures)
  assert.equal(quotas.refuses(limits), undefined)
  assert.match(quotas.refuses({ ...limits, pids: 4_000 })?.remedy ?? '', /ulimit -u/)
})

test('programs cannot have as many descriptors on their way as would keep this process from passing one', () => {
  const filesOf = (openFiles: number): number => createUserQuotas(one, { ...figures, openFiles }).take(limits).openFiles
  assert.deepEqual([filesOf(1_024), filesOf(2_000), filesOf(1_000_000)], [256, 500, 1_024])
})

test('a machine where programs could use up the pipes of their user makes no sandboxes without uids of their own', () => {
  assert.throws(() => createUserQuotas(one, { ...figures, pipePages: 65_536 }), {
    code: 'RUNTIME_UNAVAILABLE',
    message: /fs\.pipe-user-pages-hard/,
  })
})

test('quotas that the kernel does not set hold nothing back', () => {
  const none = Number.POSITIVE_INFINITY
  const quotas = createUserQuotas(one, {
    ...{ epollWatches: none, processes: none, pendingSignals: none, openFiles: none, pipePages: none },
  })
  assert.equal(quotas.take(limits).epollWatches, Number.MAX_SAFE_INTEGER)
})
