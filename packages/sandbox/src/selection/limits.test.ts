import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type SandboxLimits, ToolError } from '@gantry/contract'
import fc from 'fast-check'
import { absoluteMaxima, defaultLimits, defaultMaxima, limitNames, resolveLimits } from './limits.ts'

function issuesOf(asked: unknown, ...rest: SandboxLimits[]): readonly string[] {
  try {
    resolveLimits(asked as Partial<SandboxLimits>, ...rest)
  } catch (error) {
    assert.ok(ToolError.is(error) && error.code === 'INPUT_INVALID' && error.effect === 'none')
    return error.details?.issues?.map(({ path, message }) => `${path} ${message}`) ?? []
  }
  return []
}

test('a request without limits gets the defaults, capped at the maxima', () => {
  assert.deepEqual(resolveLimits({}), defaultLimits)
  const low = { ...defaultMaxima, wallMs: 1_000, memoryBytes: 33_554_432 }
  assert.deepEqual(resolveLimits({}, defaultLimits, low), {
    ...defaultLimits,
    wallMs: 1_000,
    memoryBytes: 33_554_432,
    diskBytes: 16_777_216,
  })
})

test('a requested limit is applied unchanged or refused', () => {
  const odd = fc.constantFrom(0, -1, 0.5, Number.NaN, Number.POSITIVE_INFINITY, 1e300, 1e12)
  const near = (name: keyof SandboxLimits) =>
    fc.oneof({ weight: 19, arbitrary: fc.integer({ min: 1, max: defaultMaxima[name] }) }, { weight: 1, arbitrary: odd })
  const asked = fc.record(Object.fromEntries(limitNames.map((name) => [name, near(name)])), { requiredKeys: [] })
  const seen = { given: 0, refused: 0 }
  fc.assert(
    fc.property(asked, (limits: Partial<SandboxLimits>) => {
      if (issuesOf(limits).length > 0) {
        seen.refused += 1
        return
      }
      seen.given += 1
      const resolved = resolveLimits(limits)
      for (const name of limitNames) {
        if (limits[name] !== undefined) assert.equal(resolved[name], limits[name])
        assert.ok(Number.isInteger(resolved[name]) && resolved[name] <= defaultMaxima[name])
      }
      assert.ok(resolved.diskBytes <= resolved.memoryBytes && resolved.diskBytes > 0)
    }),
    { numRuns: 500 },
  )
  assert.ok(seen.given > 50 && seen.refused > 50, JSON.stringify(seen))
})

test('a limit out of range is refused with its path and the range', () => {
  assert.deepEqual(issuesOf({ wallMs: 3_600_001, pids: 0 }), [
    '/limits/wallMs must be a whole number from 1 to 3600000',
    '/limits/pids must be a whole number from 1 to 1024',
  ])
  for (const wrong of ['5', 1.5, Number.NaN, -1, null, {}, [1]]) assert.equal(issuesOf({ cpuMs: wrong }).length, 1)
  assert.equal(issuesOf({ cpuMs: undefined }).length, 0)
})

test('an unknown limit is refused with the nearest known name', () => {
  assert.deepEqual(issuesOf({ memoryByte: 1 }), ['/limits/memoryByte is not a limit (did you mean "memoryBytes"?)'])
  assert.equal(issuesOf(JSON.parse('{"__proto__": 1}')).length, 1)
  assert.deepEqual(issuesOf([1]), ['/limits must be an object of limits'])
})

test('the default workspace size is at most half of the memory limit', () => {
  assert.equal(resolveLimits({ memoryBytes: 33_554_432 }).diskBytes, 16_777_216)
  assert.equal(resolveLimits({ memoryBytes: 1_073_741_824 }).diskBytes, defaultLimits.diskBytes)
})

test('a workspace larger than the memory limit is refused, requested or default', () => {
  const words = 'because the workspace lies in memory'
  assert.match(issuesOf({ memoryBytes: 33_554_432, diskBytes: 33_554_433 })[0] ?? '', new RegExp(words))
  assert.match(issuesOf({ diskBytes: defaultLimits.memoryBytes + 1 })[0] ?? '', new RegExp(words))
  assert.equal(resolveLimits({ memoryBytes: 33_554_432, diskBytes: 33_554_432 }).diskBytes, 33_554_432)
})

test('a disk of size 0 is refused, because the kernel takes it for unlimited', () => {
  assert.equal(issuesOf({ diskBytes: 0 }, defaultLimits, absoluteMaxima).length, 1)
})
