import assert from 'node:assert/strict'
import { test } from 'node:test'
import { allowed, type Check, checked, refused } from '@gantry/sandbox/internal/process/seccomp/policy'
import { seccompProfiles } from './container-seccomp.ts'

const filters = ['base', 'strict'] as const
type Filter = (typeof filters)[number]

function words(groups: readonly { readonly calls: string }[]): Set<string> {
  return new Set(groups.flatMap(({ calls }) => calls.split(/\s+/).filter(Boolean)))
}

const rulesOf = (filter: Filter, name: string) =>
  seccompProfiles[filter].syscalls.filter(({ names }) => names.includes(name))

/** Whether the engine lets a call with these arguments pass: any rule, of which all conditions hold. */
function passes(filter: Filter, name: string, args: readonly bigint[]): boolean {
  return rulesOf(filter, name).some(
    (rule) =>
      rule.action === 'SCMP_ACT_ALLOW' &&
      (rule.args ?? []).every(
        ({ index, value, valueTwo }) => ((args[index] ?? 0n) & BigInt(value)) === BigInt(valueTwo),
      ),
  )
}

const namesOf = (filter: Filter, action: string): Set<string> =>
  new Set(seccompProfiles[filter].syscalls.filter((rule) => rule.action === action).flatMap(({ names }) => names))

/** Whether it refuses whatever the arguments are. */
const refusesAll = (checks: readonly Check[]): boolean => checks.some(({ only }) => only?.length === 0)

test('an engine gets every rule of our filter, and refuses what none of them names', () => {
  for (const filter of filters) {
    assert.equal(seccompProfiles[filter].defaultAction, 'SCMP_ACT_ERRNO')
    const plain = allowed.filter(({ strict }) => filter === 'base' || strict === undefined)
    const some = checked.filter(({ checks, strict }) => !refusesAll(filter === 'base' ? checks : (strict ?? checks)))
    assert.deepEqual(namesOf(filter, 'SCMP_ACT_ALLOW'), words([...plain, ...some]), filter)
    assert.deepEqual(namesOf(filter, 'SCMP_ACT_ERRNO'), words(refused), filter)
  }
})

test('the strict filter refuses what the profile hardened refuses, and the base filter does not', () => {
  for (const [name, ...args] of [
    ['splice'],
    ['shmget', 0n, 1n, 0n],
    ['socket', 2n, 1n, 0n],
    ['fcntl', 3n, 6n],
  ] as const) {
    assert.deepEqual([passes('base', name, args), passes('strict', name, args)], [true, false], name)
  }
  for (const filter of filters) assert.ok(passes(filter, 'socket', [1n, 1n, 0n]), filter)
})

/** Values next to those of a check, and with the upper half set, which the kernel ignores. */
function probes({ only = [], never = [] }: Check): readonly bigint[] {
  const near = [...only, ...never].flatMap((value) => [value, value + 1, Math.max(0, value - 1), value * 2])
  const low = [...near, 0, 1, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff].map((value) => BigInt(value % 2 ** 32))
  return [...low, ...low.map((value) => value | 0xdead_beef_0000_0000n)]
}

const setSeccomp = 22

for (const filter of filters) {
  test(`the ${filter} filter compares each argument as the filter of the init does, where that depends on no other`, () => {
    for (const { calls, checks: base, strict } of checked) {
      const all = filter === 'strict' ? (strict ?? base) : base
      const alone = all.length === 1 ? all[0] : undefined
      if (alone === undefined || alone.when !== undefined || alone.unlessNull !== undefined) continue
      const { argument, mask = 0xffff_ffff, only, never = [] } = alone
      for (const value of probes(alone)) {
        const low = Number(value & BigInt(mask))
        // The init needs it for its own filter.
        const isFine = only?.includes(low) ?? (!never.includes(low) || low === setSeccomp)
        const args = Array.from({ length: 6 }, (_, index) => (index === argument ? value : 0n))
        assert.equal(passes(filter, calls, args), isFine, `${calls}(${args.join(', ')})`)
      }
    }
  })
}

test('a process without new namespaces is allowed, and no socket but TCP, UDP and those of the file system', () => {
  const op = 'SCMP_CMP_MASKED_EQ'
  const conditions = rulesOf('base', 'clone').map(({ args }) => args)
  assert.deepEqual(conditions, [[{ index: 0, op, value: 0x7e02_0000, valueTwo: 0 }]])
  const families = rulesOf('base', 'socket').map(({ args }) => args?.find(({ index }) => index === 0)?.valueTwo)
  assert.deepEqual(new Set(families), new Set([1, 2, 10]))
})

test('an argument has at most one condition in a rule, because more than one would be alternatives to libseccomp', () => {
  for (const filter of filters) {
    for (const { names, args = [] } of seccompProfiles[filter].syscalls) {
      assert.equal(new Set(args.map(({ index }) => index)).size, args.length, names.join(' '))
    }
  }
})
