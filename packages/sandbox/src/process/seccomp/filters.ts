import { createHash } from 'node:crypto'
import { chmod, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { unavailable } from '../bubblewrap.ts'
import { type Architecture, numbers } from './numbers.ts'
import { type Action, allowed, type Check, checked, otherwise, refused } from './policy.ts'

/** One instruction of a classic BPF program, `struct sock_filter`. */
interface Instruction {
  readonly code: number
  readonly jumpTrue: number
  readonly jumpFalse: number
  readonly value: number
}

/** What is done for the numbers from `first` up to the next rule's. */
export interface Rule {
  readonly first: number
  readonly action: Action
  readonly checks: readonly Check[]
}

/** Of `struct seccomp_data`: the number, the processor, and the arguments of eight bytes, lower half first. */
const offsets = { number: 0, architecture: 4, arguments: 16 }
const codes = { load: 0x20, and: 0x54, jump: 0x05, ifEqual: 0x15, ifAtLeast: 0x35, return: 0x06 }
const actions = { killProcess: 0x8000_0000, allow: 0x7fff_0000, errno: 0x0005_0000 }
/** A conditional jump has one byte for its distance. */
const farthest = 255
const instructionBytes = 8

/**
 * A whole filter: a program that calls by another processor's convention (`int 0x80`) is killed, because its numbers mean other
 * things; then the number is looked up by halving, then its arguments are checked.
 */
export function assemble(architecture: number, rules: readonly Rule[]): Instruction[] {
  return [
    load(offsets.architecture),
    { code: codes.ifEqual, jumpTrue: 1, jumpFalse: 0, value: architecture },
    give(actions.killProcess),
    load(offsets.number),
    ...search(rules),
  ]
}

/** The program as the kernel reads it, little endian on every processor that we know. */
export function toBytes(program: readonly Instruction[]): Uint8Array {
  const bytes = new DataView(new ArrayBuffer(program.length * instructionBytes))
  for (const [index, { code, jumpTrue, jumpFalse, value }] of program.entries()) {
    const at = index * instructionBytes
    bytes.setUint16(at, code, true)
    bytes.setUint8(at + 2, jumpTrue)
    bytes.setUint8(at + 3, jumpFalse)
    bytes.setUint32(at + 4, value, true)
  }
  return new Uint8Array(bytes.buffer)
}

function search(rules: readonly Rule[]): Instruction[] {
  const [only] = rules
  if (only === undefined) throw new Error('a filter without rules')
  if (rules.length === 1) return leaf(only)
  const middle = rules.length >> 1
  const [lower, upper] = [search(rules.slice(0, middle)), search(rules.slice(middle))]
  const value = rules[middle]?.first ?? 0
  if (lower.length <= farthest) {
    return [{ code: codes.ifAtLeast, jumpTrue: lower.length, jumpFalse: 0, value }, ...lower, ...upper]
  }
  const over: Instruction = { code: codes.jump, jumpTrue: 0, jumpFalse: 0, value: lower.length }
  return [{ code: codes.ifAtLeast, jumpTrue: 0, jumpFalse: 1, value }, over, ...lower, ...upper]
}

function leaf({ action, checks }: Rule): Instruction[] {
  return [...checks.flatMap(conditional), give(action === 'allow' ? actions.allow : actions.errno | action.errno)]
}

/** A check that is passed over when a pointer is null, both halves of it, or another argument is not what it is for. */
function conditional(one: Check): Instruction[] {
  const body = check(one)
  if (one.when !== undefined) {
    const { argument, is } = one.when
    return [
      load(offsets.arguments + 8 * argument),
      { code: codes.ifEqual, jumpTrue: 0, jumpFalse: body.length, value: is },
      ...body,
    ]
  }
  if (one.unlessNull === undefined) return body
  const at = offsets.arguments + 8 * one.unlessNull
  return [
    load(at),
    { code: codes.ifEqual, jumpTrue: 0, jumpFalse: 2, value: 0 },
    load(at + 4),
    { code: codes.ifEqual, jumpTrue: body.length, jumpFalse: 0, value: 0 },
    ...body,
  ]
}

/** Goes on behind itself where the argument is as it should be. */
function check({ argument, mask, only, never, errno }: Check): Instruction[] {
  const values = only ?? never ?? []
  // A value that is found leads to the refusal when it is forbidden, and over it when it is one of those allowed.
  const found = only === undefined ? 1 : 2
  return [
    load(offsets.arguments + 8 * argument),
    ...(mask === undefined ? [] : [{ code: codes.and, jumpTrue: 0, jumpFalse: 0, value: mask }]),
    ...values.map((value, index): Instruction => {
      const behind = values.length - 1 - index
      return { code: codes.ifEqual, jumpTrue: behind + found, jumpFalse: 0, value }
    }),
    { code: codes.jump, jumpTrue: 0, jumpFalse: 0, value: only === undefined ? 1 : 0 },
    give(actions.errno | errno),
  ]
}

function load(offset: number): Instruction {
  return { code: codes.load, jumpTrue: 0, jumpFalse: 0, value: offset }
}

function give(value: number): Instruction {
  return { code: codes.return, jumpTrue: 0, jumpFalse: 0, value: value >>> 0 }
}

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
