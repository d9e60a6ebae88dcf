import { createHash } from 'node:crypto'
import { chmod, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { unavailable } from '../bubblewrap.ts'
import { assemble, type Rule, toBytes } from './assemble.ts'
import { type Architecture, numbers } from './numbers.ts'
import { allowed, checked, otherwise, refused } from './policy.ts'

/** Which of the two filters; `strict` is for the profile `hardened`. */
export type FilterName = 'base' | 'strict'

/** A compiled filter on disk, with its SHA-256. */
export interface Filter {
  readonly file: string
  readonly hash: string
}

/** How the kernel names processors in its audit. */
const audited: { readonly [Name in Architecture]: number } = { x64: 0xc000_003e, arm64: 0xc000_00b7 }

/** A filter as `bwrap --seccomp` reads it. The same bytes for the same version of Gantry, wherever it is made. */
export function compileFilter(architecture: Architecture, name: FilterName): Uint8Array {
  return toBytes(assemble(audited[architecture], rulesFor(architecture, name)))
}

/** The SHA-256 of a filter, as audit records and `gantry doctor` name it. */
export function filterHash(architecture: Architecture, name: FilterName): string {
  return createHash('sha256').update(compileFilter(architecture, name)).digest('hex')
}

/** Writes both filters into a folder; rejects with RUNTIME_UNAVAILABLE on a processor whose numbers we do not know. */
export async function writeFilters(folder: string): Promise<{ readonly [Name in FilterName]: Filter }> {
  const { arch } = process
  if (arch !== 'x64' && arch !== 'arm64') {
    throw unavailable(`System calls of ${arch} are not known, so nothing filters them.`, 'Use an x64 or arm64 machine.')
  }
  const write = async (name: FilterName): Promise<Filter> => {
    const file = join(folder, `seccomp-${name}`)
    await writeFile(file, compileFilter(arch, name), { flag: 'wx' })
    await chmod(file, 0o444)
    return { file, hash: filterHash(arch, name) }
  }
  return { base: await write('base'), strict: await write('strict') }
}

/** Rules in the order of their numbers; neighbours that are treated alike share one. */
function rulesFor(architecture: Architecture, name: FilterName): Rule[] {
  const known = numbers[architecture]
  const byNumber = new Map<number, Omit<Rule, 'first'>>()
  // A name without a number is a call that this processor never had.
  const put = (calls: string, rule: Omit<Rule, 'first'>): void => {
    for (const call of calls.split(/\s+/)) {
      const number = known.get(call)
      if (number !== undefined) byNumber.set(number, rule)
    }
  }
  for (const { calls, strict } of allowed) {
    if (name === 'base' || strict === undefined) put(calls, { action: 'allow', checks: [] })
  }
  for (const { calls, checks, strict } of checked) {
    put(calls, { action: 'allow', checks: name === 'strict' ? (strict ?? checks) : checks })
  }
  for (const { calls, errno } of refused) put(calls, { action: { errno }, checks: [] })
  return merged(byNumber)
}

function merged(byNumber: ReadonlyMap<number, Omit<Rule, 'first'>>): Rule[] {
  const end = Math.max(...byNumber.keys()) + 1
  const rules: Rule[] = []
  for (let first = 0; first <= end; first += 1) {
    const rule: Rule = { first, ...(byNumber.get(first) ?? { action: otherwise, checks: [] }) }
    const before = rules.at(-1)
    if (before === undefined || !isSame(before, rule)) rules.push(rule)
  }
  return rules
}

function isSame(one: Rule, other: Rule): boolean {
  if (one.checks.length > 0 || other.checks.length > 0) return false
  const [a, b] = [one.action, other.action]
  return a === b || (typeof a === 'object' && typeof b === 'object' && a.errno === b.errno)
}
