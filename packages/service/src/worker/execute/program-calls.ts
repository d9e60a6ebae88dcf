import { createHash } from 'node:crypto'
import { type Result, ToolError } from '@gantry/contract'
import type { Executor, InnerNames, InnerOutcome, InnerRequest, JournaledOutcome } from '@gantry/core'
import type { Claim } from '../../storage/calls/call-store.ts'
import type { JournalEntry, JournalRecords } from '../../storage/journal.ts'
import { findTool, lost, patiently, unknownResult } from './inner-calls.ts'
import type { InnerCharges } from './inner-charges.ts'
import type { OrderedWriter } from './ordered-writer.ts'

export interface ProgramCallPorts {
  readonly executor: Pick<Executor, 'reconcile' | 'catalog'>
  readonly journal: Pick<JournalRecords, 'forget'>
  readonly claim: Claim
  readonly charges: InnerCharges
  readonly writer: OrderedWriter
  readonly known: ReadonlyMap<string, JournalEntry>
  /** The signal of the attempt, which outlives that of a call. */
  readonly signal: AbortSignal
}

/** A call that a program requests, and its names. */
export interface ProgramCall {
  readonly ask: InnerRequest
  readonly entry: string
  readonly tool: string
  readonly names: InnerNames & { readonly callId: string; readonly idempotencyKey: string }
}

/** The outcome of a call. That of a call without effects may be delivered to the program before it is durable. */
export interface Made {
  readonly outcome: InnerOutcome
  readonly early: boolean
  /**
   * Removes the `begun` entry; present when there is one. While the store is unavailable it waits, because a call that
   * stays begun is unknown to the next attempt. Rejects with an error that `isLost` recognises when another worker has
   * the program.
   */
  readonly forget?: () => Promise<void>
}

/**
 * Makes one call of a program as its effect class allows; see `createProgramAttempt`.
 * - Errors: rejects when the call could not begin, because the journal could not be written or the call was stopped.
 */
export async function makeCall(
  { ask, entry, tool: id, names }: ProgramCall,
  make: (names?: InnerNames) => Promise<InnerOutcome>,
  { executor, journal, claim, charges, writer, known, signal: lasting }: ProgramCallPorts,
): Promise<Made> {
  const { signal } = ask
  const tool = findTool(executor, id)
  const early = tool.effect === 'read'
  if (known.has(entry)) {
    const found = await earlier()
    if (found !== undefined) return { outcome: { kind: 'result', result: found }, early }
  }
  const delicate = tool.effect === 'once' || tool.effect === 'reconcilable'
  let begun = false
  const result = await charges.call({ callId: names.callId, tool: tool.id, signal }, async () => {
    if (delicate) await writer.add({ entry })
    else if (!early) await writer.drained()
    begun = delicate
    const made = await make(names)
    if (made.kind === 'result') return made.result
    throw new ToolError('INTERNAL', `The outcome of inner call ${names.callId} is not a Result.`)
  })
  const { callId, fence } = claim
  const forget = async (): Promise<void> => {
    if (!(await patiently(() => journal.forget({ callId, fence }, entry), lasting))) throw lost(callId)
  }
  return { outcome: { kind: 'result', result }, early, ...(begun ? { forget } : {}) }

  /** The outcome of a call that an earlier attempt began; undefined when it is to be made again. */
  async function earlier(): Promise<Result | undefined> {
    if (tool.effect === 'once') return unknownResult(names, tool, 'Its worker was lost.')
    if (tool.effect !== 'reconcilable') return undefined
    const asking = { callId: names.callId, identity: claim.call.identity, signal }
    const answer = await executor.reconcile(id, names.idempotencyKey, asking)
    if (answer.state === 'found') return answer.result
    if (answer.state === 'absent') return undefined
    signal.throwIfAborted()
    return unknownResult(names, tool, answer.reason)
  }
}

/**
 * The entries of a program in the table `journal`. Each request is an entry `p<number>.<fingerprint>`: begun, or done
 * with the outcome that the program got. `p0` has the time at which the program began, and `w<number>.<fingerprint>`
 * the time at which a long sleep ends. The entries of a nested program or chain are named after the entry of its
 * request, behind a `/` or a `.`.
 */
interface ProgramEntries {
  readonly startedMs: number | undefined
  /** The outcomes that the program got, in order. */
  readonly outcomes: readonly JournaledOutcome[]
  /** The next number in that order. */
  readonly nextSeq: number
  /** The fingerprints of begun requests without an outcome, by number. */
  readonly begun: ReadonlyMap<number, string>
  /** Whether there is an entry of any request; the start of the program alone does not count. */
  readonly resumed: boolean
}

interface StoredEntry {
  readonly seq: number
  readonly atMs: number
  readonly outcome: InnerOutcome
}

/** Reads the entries of earlier attempts at a program, which begin with the prefix. */
export function readEntries(known: ReadonlyMap<string, JournalEntry>, prefix: string): ProgramEntries {
  const begun = new Map<number, string>()
  const kept: (JournaledOutcome & StoredEntry)[] = []
  for (const [name, entry] of known) {
    const [, digits, fingerprint] = (name.startsWith(prefix) && questionName.exec(name.slice(prefix.length))) || []
    if (digits === undefined || fingerprint === undefined) continue
    const number = Number(digits)
    if (entry.state === 'begun') begun.set(number, fingerprint)
    else {
      const outcome: StoredEntry = JSON.parse(entry.result)
      kept.push({ number, fingerprint, ...outcome })
    }
  }
  kept.sort((one, other) => one.seq - other.seq)
  return {
    startedMs: readTime(known, startOf(prefix)),
    outcomes: kept.map(({ number, fingerprint, outcome, atMs }) => ({ number, fingerprint, outcome, atMs })),
    nextSeq: (kept.at(-1)?.seq ?? 0) + 1,
    begun,
    resumed: [...known.keys()].some((name) => name.startsWith(prefix) && name !== startOf(prefix)),
  }
}

const questionName = /^p([1-9][0-9]*)\.([0-9a-f]{12})$/

/** The time in an entry. */
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

/** The seed of a program's random numbers: the same in every attempt, and different for every program. */
export function seedOf(callId: string, prefix: string): number {
  return createHash('sha256').update(`${callId}/${prefix}seed`).digest().readUInt32LE()
}

export function textOf(kept: StoredEntry): string {
  return JSON.stringify(kept)
}
