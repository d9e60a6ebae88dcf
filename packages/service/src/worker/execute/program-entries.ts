import { createHash } from 'node:crypto'
import type { InnerOutcome, InnerRequest, JournaledOutcome } from '@gantry/core'
import type { JournalEntry } from '../../storage/journal.ts'

/**
 * How a program is written into the table `journal`. Each question is an entry `p<number>.<fingerprint>`: begun, or done
 * with what the program was told. `p0` has the time at which the program began, and `w<number>.<fingerprint>` that at which
 * a long sleep ends. What a program or a chain inside of the program keeps is named behind the entry of its question, after
 * a `/` or a `.`.
 */
export interface ProgramEntries {
  readonly startedMs: number | undefined
  /** What was told, in order. */
  readonly told: readonly JournaledOutcome[]
  /** Where the numbers in that order go on. */
  readonly nextSeq: number
  /** The fingerprints of what was begun and has no end, by number. */
  readonly begun: ReadonlyMap<number, string>
  /** Whether there is anything of what it asked for; that it was about to begin is not enough. */
  readonly resumed: boolean
}

interface Kept {
  readonly seq: number
  readonly atMs: number
  readonly outcome: InnerOutcome
}

/** Reads what earlier attempts left of a program, whose entries begin with the prefix. */
export function readEntries(known: ReadonlyMap<string, JournalEntry>, prefix: string): ProgramEntries {
  const begun = new Map<number, string>()
  const kept: (JournaledOutcome & Kept)[] = []
  for (const [name, entry] of known) {
    const [, digits, fingerprint] = (name.startsWith(prefix) && questionName.exec(name.slice(prefix.length))) || []
    if (digits === undefined || fingerprint === undefined) continue
    const number = Number(digits)
    if (entry.state === 'begun') begun.set(number, fingerprint)
    else kept.push({ number, fingerprint, ...(JSON.parse(entry.result) as Kept) })
  }
  kept.sort((one, other) => one.seq - other.seq)
  return {
    startedMs: readTime(known, startOf(prefix)),
    told: kept.map(({ number, fingerprint, outcome, atMs }) => ({ number, fingerprint, outcome, atMs })),
    nextSeq: (kept.at(-1)?.seq ?? 0) + 1,
    begun,
    resumed: [...known.keys()].some((name) => name.startsWith(prefix) && name !== startOf(prefix)),
  }
}

const questionName = /^p([1-9][0-9]*)\.([0-9a-f]{12})$/

/** The time that an entry holds. */
export function readTime(known: ReadonlyMap<string, JournalEntry>, entry: string): number | undefined {
  const found = known.get(entry)
  return found?.state === 'done' ? Number(found.result) : undefined
}

export function entryOf(prefix: string, { number, fingerprint }: Pick<InnerRequest, 'number' | 'fingerprint'>): string {
  return `${prefix}p${number}.${fingerprint}`
}

export function wakeOf(prefix: string, { number, fingerprint }: Pick<InnerRequest, 'number' | 'fingerprint'>): string {
  return `${prefix}w${number}.${fingerprint}`
}

export function startOf(prefix: string): string {
  return `${prefix}p0`
}

/** Where a program gets its random numbers from: the same in every attempt, and another one for every program. */
export function seedOf(callId: string, prefix: string): number {
  return createHash('sha256').update(`${callId}/${prefix}seed`).digest().readUInt32LE()
}

export function textOf(kept: Kept): string {
  return JSON.stringify(kept)
}
