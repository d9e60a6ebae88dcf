import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Isolation, ToolError } from '@gantry/contract'
import {
  isolations,
  meets,
  type Probe,
  type Runtime,
  type SandboxSpec,
  stronger,
} from '@gantry/core/internal/runtimes/runtime'
import fc from 'fast-check'
import { fakeRuntime, works } from '../runtimes/fake.fixture.ts'
import { defaultLimits } from './limits.ts'
import type { Profile } from './profiles.ts'
import { type Requirement, select } from './select.ts'

const spec: SandboxSpec = { limits: defaultLimits, network: 'none', language: 'python' }
const probeOf = (runtime: Runtime): Promise<Probe> => runtime.probe(new AbortController().signal)

function requirement(
  changes: Partial<Omit<Requirement, 'profile'>> & { profile?: Partial<Profile> } = {},
): Requirement {
  const profile = {
    name: 'standard',
    network: 'allow',
    strict: false,
    unsafeHost: false,
    packages: true,
    limits: {},
  } as const
  const { floor = 'namespaces' } = changes
  return { floor, program: 'code', ...changes, profile: { ...profile, floor, ...changes.profile } }
}

async function refusal(promise: Promise<unknown>): Promise<ToolError> {
  const error = await promise.then(
    () => assert.fail('a runtime was chosen'),
    (thrown: unknown) => thrown,
  )
  assert.ok(ToolError.is(error) && error.code === 'RUNTIME_UNAVAILABLE' && error.effect === 'none')
  return error
}

test('isolation levels are ordered, and the stronger of two meets both', () => {
  assert.ok(meets('namespaces', 'wasm') && !meets('wasm', 'namespaces') && meets('container', 'namespaces'))
  const any = fc.constantFrom(...isolations)
  fc.assert(
    fc.property(any, any, (one, other) => {
      const both = stronger(one, other)
      assert.ok(meets(both, one) && meets(both, other) && (both === one || both === other))
      assert.ok(meets(one, other) || meets(other, one))
    }),
  )
})

test('selection returns the cheapest runtime that meets every demand, and none below the floor', async () => {
  const kinds = ['a', 'b', 'c', 'd', 'e']
  const mostly = fc.constantFrom(true, true, true, true, false)
  const isolation = fc.constantFrom(...isolations)
  const low = fc.oneof({ weight: 2, arbitrary: fc.constant('none' as const) }, { weight: 1, arbitrary: isolation })
  const runtimes = fc.array(
    fc.record({
      isolation,
      cost: fc.integer({ min: 1, max: 9 }),
      there: mostly,
      able: mostly,
      speaks: mostly,
      runs: mostly,
    }),
    { maxLength: kinds.length, size: 'max' },
  )
  const asked = fc.record({
    floor: low,
    profileFloor: low,
    runtime: fc.option(fc.constantFrom(...kinds), { nil: undefined }),
    allowed: fc.option(fc.subarray(kinds, { minLength: 1 }), { nil: undefined }),
    unsafeHost: fc.boolean(),
  })
  const seen = { chosen: 0, refused: 0, bare: 0 }
  await fc.assert(
    fc.asyncProperty(runtimes, asked, async (given, { floor, profileFloor, runtime, allowed, unsafeHost }) => {
      const fakes = given.map((each, index) => ({ ...each, kind: kinds[index] ?? '' }))
      const list = fakes
        .toSorted((one, other) => one.cost - other.cost)
        .map(({ there, able, speaks, runs, ...rest }) =>
          fakeRuntime({
            ...rest,
            ...(runs ? {} : { programs: ['wasi'] }),
            probe: () =>
              there
                ? { ...works, languages: speaks ? ['python'] : [] }
                : { available: false, reason: 'No.', remedy: '.' },
            refuses: () => (able ? undefined : { reason: 'It cannot.', remedy: '.' }),
          }),
        )
      const serves = ({ kind, isolation: has, there, able, speaks, runs }: (typeof fakes)[number]): boolean =>
        (runtime === undefined || runtime === kind) &&
        (allowed === undefined || allowed.includes(kind)) &&
        (has !== 'none' || (unsafeHost && runtime === kind)) &&
        isolations.indexOf(has) >= Math.max(isolations.indexOf(floor), isolations.indexOf(profileFloor)) &&
        [there, able, speaks, runs].every(Boolean)
      const best = Math.min(...fakes.filter(serves).map(({ cost }) => cost))
      const wanted = requirement({
        floor: stronger(floor, profileFloor),
        ...(runtime === undefined ? {} : { runtime }),
        profile: { unsafeHost, ...(allowed === undefined ? {} : { runtimes: allowed }) },
      })
      const choice = select(list, wanted, spec, probeOf)
      if (best === Number.POSITIVE_INFINITY) {
        const refused = (await refusal(choice)).details?.runtimes as readonly { readonly kind: string }[]
        assert.deepEqual(
          refused.map(({ kind }) => kind),
          list.map(({ kind }) => kind),
        )
        seen.refused += 1
        return
      }
      const chosen = await choice
      assert.equal(chosen.cost, best)
      assert.ok(serves(fakes.find(({ kind }) => kind === chosen.kind) ?? assert.fail()))
      seen.chosen += 1
      if (chosen.isolation === 'none') seen.bare += 1
    }),
    { numRuns: 2_000 },
  )
  assert.ok(seen.chosen > 100 && seen.refused > 100 && seen.bare > 0, JSON.stringify(seen))
})

test('selection does not probe a runtime that it refuses or that costs more than the chosen one', async () => {
  const [wasm, cheap, dear] = [
    fakeRuntime({ kind: 'wasm', isolation: 'wasm' }),
    fakeRuntime({ kind: 'process', cost: 2 }),
    fakeRuntime({ kind: 'docker', isolation: 'container', cost: 3 }),
  ]
  assert.equal((await select([wasm, cheap, dear], requirement(), spec, probeOf)).kind, 'process')
  assert.deepEqual([wasm.probes, cheap.probes, dear.probes], [0, 1, 0])
  const unable = fakeRuntime({ refuses: () => ({ reason: 'It cannot.', remedy: '.' }) })
  await refusal(select([unable], requirement(), spec, probeOf))
  assert.equal(unable.probes, 0)
})

test('a refusal details reason and remedy for each runtime, and its message names the one that meets the floor', async () => {
  const runtimes = [
    fakeRuntime({ kind: 'unsafe_host', isolation: 'none' }),
    fakeRuntime({ kind: 'wasm', isolation: 'wasm' }),
    fakeRuntime({
      kind: 'process',
      probe: () => ({ available: false, reason: 'bwrap is not there.', remedy: 'Install bubblewrap.' }),
    }),
  ]
  const error = await refusal(select(runtimes, requirement(), spec, probeOf))
  assert.equal(error.message, 'No runtime serves this request. process: bwrap is not there. Install bubblewrap.')
  assert.equal(error.retryable, true)
  assert.deepEqual(error.details?.runtimes, [
    {
      kind: 'unsafe_host',
      reason: 'It isolates nothing, and the profile standard does not allow it.',
      remedy:
        'Set unsafeHost: true in a profile whose floor is none, such as dev, and name that profile and unsafe_host in the call.',
    },
    {
      kind: 'wasm',
      reason: 'Its isolation is wasm, and at least namespaces is required.',
      remedy: "Set `profile: 'wasm'`, which allows it, or name a profile whose floor is lower.",
    },
    { kind: 'process', reason: 'bwrap is not there.', remedy: 'Install bubblewrap.' },
  ])
})

test('unsafe_host is selected only when the profile allows it and the call names it', async () => {
  const host = fakeRuntime({ kind: 'unsafe_host', isolation: 'none', cost: 0 })
  const process = fakeRuntime({ kind: 'process' })
  const choose = async (unsafeHost: boolean, runtime?: string): Promise<string> => {
    const wanted = requirement({
      floor: 'none',
      profile: { unsafeHost },
      ...(runtime === undefined ? {} : { runtime }),
    })
    return (await select([host, process], wanted, spec, probeOf)).kind
  }
  assert.equal(await choose(true, 'unsafe_host'), 'unsafe_host')
  assert.equal(await choose(true), 'process')
  assert.equal(await choose(false), 'process')
  const error = await refusal(choose(false, 'unsafe_host'))
  assert.match(error.message, /unsafe_host: It isolates nothing, and the profile standard does not allow it/)
  assert.equal(error.retryable, false)
  assert.equal(host.probes, 1)
})

test('a named runtime that is below the floor or unknown is refused', async () => {
  const wasm = fakeRuntime({ kind: 'wasm', isolation: 'wasm' })
  const below = await refusal(select([wasm], requirement({ runtime: 'wasm' }), spec, probeOf))
  assert.match(below.message, /wasm: Its isolation is wasm, and at least namespaces/)
  const unknown = await refusal(select([wasm], requirement({ runtime: 'wasn' }), spec, probeOf))
  assert.equal(unknown.message, 'Unknown runtime "wasn" (did you mean "wasm"?); available are wasm.')
  assert.match((await refusal(select([], requirement(), spec, probeOf))).message, /No runtime is configured/)
})

test('selection uses the probe result: a missing language or an unenforced limit refuses a runtime', async () => {
  let known = false
  const process = fakeRuntime({
    probe: () => {
      known = true
      return works
    },
    refuses: ({ strict }) => (known && strict ? { reason: 'No cgroups.', remedy: 'Delegate one.' } : undefined),
  })
  const ruby = await refusal(select([process], requirement(), { ...spec, language: 'ruby' }, probeOf))
  assert.match(ruby.message, /Its languages here are python, javascript; "ruby" is not installed\./)
  known = false
  const strict = await refusal(select([process], requirement(), { ...spec, strict: true }, probeOf))
  assert.match(strict.message, /No cgroups\. Delegate one\./)
})

test('wasm gets commands and scripts only when it declares them, and WASI modules run nowhere else', async () => {
  const wasm = fakeRuntime({ kind: 'wasm', isolation: 'wasm' })
  const process = fakeRuntime({ kind: 'process' })
  const { language: _, ...bare } = spec
  for (const [program, kind] of [
    ['argv', 'process'],
    ['script', 'process'],
    ['wasi', 'wasm'],
    ['code', 'wasm'],
  ] as const) {
    assert.equal((await select([wasm, process], requirement({ floor: 'wasm', program }), bare, probeOf)).kind, kind)
  }
  const all = fakeRuntime({ kind: 'wasm', isolation: 'wasm', programs: ['argv'] })
  assert.equal(await select([all], requirement({ floor: 'wasm', program: 'argv' }), bare, probeOf), all)
})

test('a request that no runtime serves is retryable only when the probe of a suitable runtime failed temporarily', async () => {
  const broken = { available: false, reason: 'The daemon does not respond.', remedy: 'Start it.' } as const
  const cases: readonly (readonly [boolean, Parameters<typeof fakeRuntime>[0], Partial<SandboxSpec>?])[] = [
    [true, { probe: () => broken }],
    [false, { probe: () => ({ ...broken, breached: ['proc'] }) }],
    [false, { probe: () => broken, isolation: 'wasm' }],
    [false, { probe: () => broken, programs: ['wasi'] }],
    [false, { refuses: () => ({ reason: 'It cannot.', remedy: '.' }) }],
    [false, {}, { language: 'ruby' }],
  ]
  for (const [retryable, runtime, more] of cases) {
    const error = await refusal(select([fakeRuntime(runtime)], requirement(), { ...spec, ...more }, probeOf))
    assert.equal(error.retryable, retryable, error.message)
  }
})

test('a WASI module without the profile wasm is refused with that profile as the remedy', async () => {
  const { language: _, ...bare } = spec
  const runtimes = [
    fakeRuntime({ kind: 'unsafe_host', isolation: 'none' }),
    fakeRuntime({ kind: 'process' }),
    fakeRuntime({ kind: 'wasm', isolation: 'wasm' }),
  ]
  const error = await refusal(select(runtimes, requirement({ program: 'wasi' }), bare, probeOf))
  assert.match(error.message, /wasm: Its isolation is wasm, .* Set `profile: 'wasm'`/)
  assert.equal(error.retryable, false)
  const named = await refusal(select(runtimes, requirement({ program: 'wasi', runtime: 'process' }), bare, probeOf))
  assert.match(named.message, /process: It cannot run a program given as wasi\. Set `profile: 'wasm'`/)
})

test('a floor is met by every isolation at or above it and by none below', async () => {
  for (const has of isolations.slice(1)) {
    const runtime = fakeRuntime({ isolation: has })
    for (const floor of isolations as readonly Isolation[]) {
      const choice = select([runtime], requirement({ floor }), spec, probeOf)
      if (isolations.indexOf(has) >= isolations.indexOf(floor)) assert.equal(await choice, runtime)
      else await refusal(choice)
    }
  }
})
