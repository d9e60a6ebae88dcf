import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isolations, meets } from '@gantry/core/internal/runtimes/runtime'
import fc from 'fast-check'
import { defaultMaxima } from './limits.ts'
import { type Profile, readProfiles } from './profiles.ts'

const bounds = { maxima: defaultMaxima, kinds: ['process', 'wasm', 'unsafe_host'] }

function issuesOf(options: unknown): readonly string[] {
  return readProfiles(options, bounds).issues.map(({ path, message }) => `${path} ${message}`)
}

test('the built-in profiles are dev, standard, hardened and wasm', () => {
  const { profiles } = readProfiles(undefined, bounds)
  const shown = [...profiles.values()].map(({ name, floor, strict, network, unsafeHost, runtimes }) =>
    [name, floor, strict, network, unsafeHost, runtimes?.join()].join(' '),
  )
  assert.deepEqual(shown, [
    'dev none false allow false ',
    'standard namespaces false allow false ',
    'hardened namespaces true none false ',
    'wasm wasm false allow false wasm',
  ])
})

test('a configured profile overrides fields of the built-in one and leaves other profiles unchanged', () => {
  const given = {
    dev: { unsafeHost: true, limits: { wallMs: 5_000 }, network: 'none' },
    standard: { floor: 'container' },
  }
  const { profiles, issues } = readProfiles(given, bounds)
  assert.deepEqual(issues, [])
  assert.deepEqual(profiles.get('dev'), {
    name: 'dev',
    floor: 'none',
    network: 'none',
    strict: false,
    unsafeHost: true,
    packages: true,
    limits: { wallMs: 5_000 },
  })
  assert.equal(profiles.get('standard')?.floor, 'container')
  assert.equal(profiles.get('hardened')?.floor, 'namespaces')
})

test('no configuration weakens a built-in profile, and unsafeHost needs the floor none', () => {
  const builtIn = readProfiles(undefined, bounds).profiles
  const options = fc.record(
    {
      floor: fc.constantFrom(...isolations, ...isolations, 'nothing'),
      network: fc.constantFrom('none', 'none', 'allow', 'allow', 'all'),
      strict: fc.constantFrom(true, true, false, false, 'no'),
      unsafeHost: fc.constantFrom(true, false, false, false, 1),
      runtimes: fc.constantFrom(['process'], ['wasm', 'process'], ['wasm'], [], ['docker']),
      limits: fc.constantFrom({}, { wallMs: 1 }, { pids: 9 }, { wallMs: -1 }),
    },
    { requiredKeys: [] },
  )
  const seen = { taken: 0, refused: 0 }
  fc.assert(
    fc.property(fc.constantFrom('dev', 'standard', 'hardened', 'wasm', 'own'), options, (name, given) => {
      const { profiles, issues } = readProfiles({ [name]: given }, bounds)
      const [before, after] = [builtIn.get(name), profiles.get(name)]
      seen[issues.length > 0 ? 'refused' : 'taken'] += 1
      if (issues.length > 0) assert.deepEqual(after, before)
      else assert.ok(after !== undefined && isNotLaxer(after, before))
    }),
    { numRuns: 1_000 },
  )
  assert.ok(seen.taken > 50 && seen.refused > 50, JSON.stringify(seen))
})

function isNotLaxer(after: Profile, before: Profile | undefined): boolean {
  if (after.unsafeHost && after.floor !== 'none') return false
  if (before === undefined) return true
  const network = before.network === 'allow' || after.network === 'none'
  return meets(after.floor, before.floor) && network && (after.strict || !before.strict)
}

test('invalid profiles are refused with their paths and suggestions', () => {
  assert.deepEqual(issuesOf({ dev: { unsafehost: true } }), [
    '/profiles/dev/unsafehost is not an option (did you mean "unsafeHost"?)',
  ])
  assert.deepEqual(issuesOf({ standart: { limits: {} } }), [
    '/profiles/standart/floor must be stated (did you mean "standard"?)',
  ])
  assert.deepEqual(issuesOf({ hardened: { floor: 'wasm', network: 'allow', strict: false } }), [
    '/profiles/hardened/floor must not be below namespaces',
    '/profiles/hardened/strict must stay true',
    "/profiles/hardened/network must stay 'none'",
  ])
  assert.deepEqual(issuesOf({ standard: { unsafeHost: true } }), [
    "/profiles/standard/unsafeHost needs a floor of 'none'",
  ])
  assert.deepEqual(issuesOf({ own: { floor: 'none', runtimes: ['proces'] } }), [
    '/profiles/own/runtimes names an unknown runtime (did you mean "process"?): proces',
  ])
  assert.deepEqual(issuesOf({ dev: { limits: { wallMs: 0, pid: 1 } } }), [
    '/profiles/dev/limits/wallMs must be a whole number from 1 to 3600000',
    '/profiles/dev/limits/pid is not a limit (did you mean "pids"?)',
  ])
  assert.deepEqual(issuesOf([]), ['/profiles must be an object of profiles'])
  assert.deepEqual(issuesOf(JSON.parse('{"__proto__": {"floor": "none"}}')).length, 1)
})

test('a custom profile defaults to no network and no unsafe host', () => {
  const profile = readProfiles({ batch: { floor: 'kernel' } }, bounds).profiles.get('batch')
  assert.deepEqual(profile, {
    name: 'batch',
    floor: 'kernel',
    network: 'none',
    strict: false,
    unsafeHost: false,
    packages: true,
    limits: {},
  })
})
