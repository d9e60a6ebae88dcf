import { allowed, type Check, checked, otherwise, refused } from '@gantry/sandbox/internal/process/seccomp/policy'
import type { ContainerSpec } from './engine.ts'

/** One rule of `linux.seccomp` in an OCI runtime configuration, which Docker's profiles share. */
interface SeccompRule {
  readonly names: readonly string[]
  readonly action: 'SCMP_ACT_ALLOW' | 'SCMP_ACT_ERRNO'
  readonly errnoRet?: number
  readonly args?: readonly Condition[]
}

/** The conditions of one rule must all hold; those of several rules for a call are alternatives. */
interface Condition {
  readonly index: number
  readonly op: 'SCMP_CMP_MASKED_EQ'
  /** The mask. */
  readonly value: number
  /** What the argument must be under the mask. */
  readonly valueTwo: number
}

export interface SeccompProfile {
  readonly defaultAction: 'SCMP_ACT_ERRNO'
  readonly defaultErrnoRet: number
  readonly architectures: readonly string[]
  readonly syscalls: readonly SeccompRule[]
}

/** Calls with x32 numbers get an error by it, as with ours, instead of the end of the program. */
const architectures: { readonly [arch: string]: readonly string[] } = {
  x64: ['SCMP_ARCH_X86_64', 'SCMP_ARCH_X32'],
  arm64: ['SCMP_ARCH_AARCH64'],
}

const lowerHalf = 0xffff_ffff
/** PR_SET_SECCOMP: the init puts its own filter in place by it, and that one refuses it. */
const setSeccomp = 22

function profile(name: ContainerSpec['filter']): SeccompProfile {
  const { errno } = otherwise as { readonly errno: number }
  const plain = allowed.filter(({ strict }) => name === 'base' || strict === undefined)
  return {
    defaultAction: 'SCMP_ACT_ERRNO',
    defaultErrnoRet: errno,
    architectures: architectures[process.arch] ?? [],
    syscalls: [
      { names: plain.flatMap(({ calls }) => namesIn(calls)), action: 'SCMP_ACT_ALLOW' },
      ...checked.flatMap(({ calls, checks, strict }) =>
        alternatives(name === 'strict' ? (strict ?? checks) : checks).map((args) => ({
          names: namesIn(calls),
          action: 'SCMP_ACT_ALLOW' as const,
          ...(args.length === 0 ? {} : { args }),
        })),
      ),
      ...[...Map.groupBy(refused, (group) => group.errno)].map(([errnoRet, groups]) => ({
        names: groups.flatMap(({ calls }) => namesIn(calls)),
        action: 'SCMP_ACT_ERRNO' as const,
        errnoRet,
      })),
    ],
  }
}

function namesIn(calls: string): readonly string[] {
  return calls.split(/\s+/).filter(Boolean)
}

/** The combinations of conditions under which a call passes its checks; one without conditions when none can be expressed. */
function alternatives(checks: readonly Check[]): readonly (readonly Condition[])[] {
  const seen = new Set<number>()
  let all: readonly (readonly Condition[])[] = [[]]
  for (const check of checks) {
    const ways = conditions(check)
    // libseccomp takes one condition for an argument.
    if (ways === undefined || seen.has(check.argument)) continue
    seen.add(check.argument)
    all = all.flatMap((before) => ways.map((way) => [...before, way]))
  }
  return all
}

/**
 * What holds for the lower half of an argument, which is all that the kernel reads of it; undefined for a check that depends
 * on another argument. None when nothing passes.
 */
function conditions({ argument: index, mask, only, never, unlessNull, when }: Check): readonly Condition[] | undefined {
  if (unlessNull !== undefined || when !== undefined) return undefined
  const bits = mask ?? lowerHalf
  if (only !== undefined) return only.map((value) => masked(index, bits, value))
  const forbidden = (never ?? []).filter((value) => value !== setSeccomp)
  return othersThan(forbidden, bits).map(([prefix, value]) => masked(index, prefix, value))
}

function masked(index: number, value: number, valueTwo: number): Condition {
  return { index, op: 'SCMP_CMP_MASKED_EQ', value, valueTwo }
}

/**
 * Everything but some values, as the fewest pairs of a mask and what is under it: the masks are prefixes, because a number
 * differs from a value first at one of its bits. "Not equal" itself compares all 64 bits, of which the kernel ignores half.
 */
function othersThan(values: readonly number[], bits: number): readonly (readonly [mask: number, value: number])[] {
  const found: (readonly [number, number])[] = []
  const visit = (left: readonly number[], mask: number, value: number, at: number): void => {
    if (left.length === 0) found.push([mask, value])
    if (left.length === 0 || at < 0) return
    const bit = 2 ** at
    if (!has(bits, bit)) {
      visit(left, mask, value, at - 1)
      return
    }
    for (const next of [0, bit]) {
      const same = left.filter((one) => has(one, bit) === (next !== 0))
      visit(same, mask + bit, value + next, at - 1)
    }
  }
  visit(values, 0, 0, 31)
  return found
}

/** Without bit operators, which read the highest bit as a sign. */
function has(value: number, bit: number): boolean {
  return Math.floor(value / bit) % 2 === 1
}

/**
 * Our filters of system calls as the engine applies them, before anything of the image runs. The init applies the same one
 * again, in full; but the init is a file of the image, and a hostile image has another one (attack 136). Checks that depend
 * on another argument cannot be expressed here, nor may PR_SET_SECCOMP be refused: those are the init's alone.
 */
export const seccompProfiles: { readonly [Name in ContainerSpec['filter']]: SeccompProfile } = {
  base: profile('base'),
  strict: profile('strict'),
}
