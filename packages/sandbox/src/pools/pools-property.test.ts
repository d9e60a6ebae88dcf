import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { SandboxSpec } from '@gantry/core/internal/runtimes/runtime'
import fc from 'fast-check'
import { type FakeSandbox, fakeRuntime, fakeTiming, never, settled } from '../runtimes/fake.fixture.ts'
import { defaultLimits } from '../selection/limits.ts'
import { createPools } from './pools.ts'

const sorts: readonly SandboxSpec[] = ['python', 'javascript', 'bash'].map((language) => ({
  language,
  limits: defaultLimits,
  network: 'none',
}))
const sizes: { readonly [language: string]: number } = { python: 3, javascript: 5, bash: 1 }
const step = fc.oneof(
  { weight: 8, arbitrary: fc.record({ kind: fc.constant('take' as const), which: fc.nat(2) }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('end' as const), which: fc.nat(9) }) },
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('pass' as const),
      which: fc.constantFrom(1, 10, 10, 1_000, 20_000, 70_000),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('die' as const), which: fc.nat(9) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constantFrom('fail' as const, 'hold' as const, 'linger' as const),
      which: fc.nat(3),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('let go' as const), which: fc.nat(9) }) },
)
const settings = fc.record({
  min: fc.nat(2),
  max: fc.integer({ min: 2, max: 4 }),
  maxTotal: fc.integer({ min: 1, max: 6 }),
  maxMemoryBytes: fc.integer({ min: 4, max: 20 }),
  maxIdleMs: fc.constantFrom(5_000, 60_000),
})

test('for random takes, failures, deaths and delays, the pool gives out no sandbox twice or dead, keeps its bounds and disposes all', async () => {
  const seen = { warm: 0, cold: 0, full: 0, failed: 0, held: 0, lingered: 0 }
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 60, size: 'max' }), settings, async (steps, given) => {
      const timing = fakeTiming()
      const held: (() => void)[] = []
      const trouble = { fail: 0, hold: 0, linger: 0 }
      /** Languages of what is being started ahead; those who take use `never`. */
      const starting: string[] = []
      const runtime = fakeRuntime({
        opensLate: true,
        idleBytes: ({ language = '' }) => sizes[language] ?? 0,
        onDispose: (sandbox) => {
          ending.add(sandbox)
          if (given_out.has(sandbox) || trouble.linger-- <= 0) return undefined
          seen.lingered += 1
          return new Promise<void>((resolve) => void held.push(resolve))
        },
        onPausing: async () => {
          await settled()
          if (trouble.fail-- > 0) throw new Error('no freezer')
        },
        onOpen: async ({ language = '' }, signal) => {
          if (signal === never) return
          starting.push(language)
          try {
            if (trouble.hold-- > 0) await new Promise<void>((resolve) => void held.push(resolve))
            if (trouble.fail-- > 0) throw new Error('no start')
          } finally {
            starting.splice(starting.indexOf(language), 1)
          }
        },
      })
      const violations: unknown[] = []
      const pools = createPools(given, timing, ({ error }) => {
        seen.failed += 1
        if (error instanceof assert.AssertionError) violations.push(error)
      })
      const given_out = new Set<FakeSandbox>()
      const ending = new Set<FakeSandbox>()
      const inUse: FakeSandbox[] = []
      const letGo = (): void => {
        for (const open of held.splice(0)) open()
      }
      const check = (): void => {
        const ahead = runtime.live().filter((sandbox) => !given_out.has(sandbox))
        const names = [...ahead.map((sandbox) => sandbox.spec.language ?? ''), ...starting]
        assert.ok(names.length <= given.maxTotal, `${names.length} of ${given.maxTotal}`)
        const bytes = names.reduce((sum, name) => sum + (sizes[name] ?? 0), 0)
        assert.ok(bytes <= given.maxMemoryBytes, `${bytes} of ${given.maxMemoryBytes} bytes`)
        const wait = ahead.filter((sandbox) => !ending.has(sandbox)).map((sandbox) => sandbox.spec.language)
        for (const name of Object.keys(sizes)) {
          const count = [...wait, ...starting].filter((each) => each === name).length
          assert.ok(count <= given.max, `${count} of ${given.max} ${name}`)
        }
        if (names.length === given.maxTotal) seen.full += 1
        if (held.length > 0) seen.held += 1
      }
      for (const { kind, which } of steps) {
        if (kind === 'take') {
          const before = new Set(runtime.sandboxes)
          const spec = sorts[which] ?? assert.fail()
          const sandbox = (await pools.take(runtime, spec, never)) as FakeSandbox
          seen[before.has(sandbox) ? 'warm' : 'cold'] += 1
          assert.ok(!sandbox.paused, 'given out paused')
          assert.ok(!given_out.has(sandbox), 'given out twice')
          assert.deepEqual(sandbox.spec, spec)
          given_out.add(sandbox)
          inUse.push(sandbox)
          await sandbox.run({ program: { kind: 'script', script: '' } }, never)
        } else if (kind === 'end') await inUse.splice(which % Math.max(1, inUse.length), 1)[0]?.dispose()
        else if (kind === 'pass') await timing.advance(which)
        else if (kind === 'die') {
          const waiting = runtime.live().filter((sandbox) => !given_out.has(sandbox))
          waiting[which % Math.max(1, waiting.length)]?.die()
          await settled()
        } else if (kind === 'let go') {
          letGo()
          await settled()
        } else trouble[kind] = which
        check()
      }
      trouble.linger = 0
      trouble.hold = 0
      const closing = pools.close()
      letGo()
      await closing
      await Promise.all(inUse.map((sandbox) => sandbox.dispose()))
      const { opens } = runtime
      await timing.advance(600_000)
      assert.equal(runtime.opens, opens, 'something was started after the end')
      assert.deepEqual(runtime.live(), [])
      assert.deepEqual(violations, [])
      assert.equal(timing.pending, 0)
    }),
    { numRuns: 300 },
  )
  for (const [what, count] of Object.entries(seen)) assert.ok(count > 20, `${what}: ${count}`)
})
