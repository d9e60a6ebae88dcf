import { createHash } from 'node:crypto'
import { setImmediate as turn } from 'node:timers/promises'
import type { ChainStep, Identity, Json } from '@gantry/contract'
import type { Executor, InnerNames, InnerOutcome, InnerRequest, ProgramJournal } from '@gantry/core'
import type { ExecutorOptions } from '@gantry/tools'
import { heldClaim, longCall } from '../../storage/calls/claim.fixture.ts'
import type { Database } from '../../storage/databases/database.ts'
import type { JournalRecords } from '../../storage/journal.ts'
import { stub } from '../../stub.fixture.ts'
import type { InnerCharges } from './inner-charges.ts'
import { createProgramAttempt, type ProgramAttempt, type SleepTimes } from './program-journal.ts'
import { Site, type World } from './run-chain.fixture.ts'
import { journalOf } from './run-chain.ts'

const ada: Identity = { principal: 'ada', tenant: 'lab', permissions: [] }
const free: InnerCharges = { call: (_asked, make) => make() }

/** The requests that a program of these tests can make. */
export interface Host {
  call(tool: string, args?: Json): Promise<Json>
  chain(steps: readonly ChainStep[]): Promise<Json>
  sleep(ms: number): Promise<void>
  /** The clock of the program. */
  now(): number
  readonly seed: number
}

export type HostProgram = (host: Host) => Promise<Json>

interface Asked extends Omit<InnerRequest, 'signal'> {
  readonly perform: (names?: InnerNames) => Promise<InnerOutcome>
  readonly delivered: PromiseWithResolvers<Json>
}

export type Ended = { readonly value: Json } | { readonly error: unknown }

/**
 * A program without a sandbox: a function that receives one outcome at a time, each only when it is quiescent. It cannot
 * tell whether an outcome was journaled by an earlier attempt.
 */
export async function drive(
  program: HostProgram,
  journal: ProgramJournal,
  perform: (kind: 'call' | 'chain', tool: string, args: Json, signal: AbortSignal) => Asked['perform'],
  signal: AbortSignal,
): Promise<Ended> {
  const stop = new AbortController()
  const inner = AbortSignal.any([signal, stop.signal])
  const open = new Map<number, Asked>()
  let fresh: Asked[] = []
  let number = 0
  let clock = journal.startedMs
  let ended: Ended | undefined
  const ask = (kind: InnerRequest['kind'], about: Json, make: Asked['perform'], more: Partial<Asked> = {}) => {
    number += 1
    const fingerprint = createHash('sha256')
      .update(JSON.stringify([kind, about]))
      .digest('hex')
      .slice(0, 12)
    const asked = { number, kind, fingerprint, perform: make, delivered: Promise.withResolvers<Json>(), ...more }
    open.set(number, asked)
    fresh.push(asked)
    return asked.delivered.promise
  }
  const host: Host = {
    call: (tool, args = {}) => ask('call', [tool, args], perform('call', tool, args, inner), { tool }),
    chain: (steps) => ask('chain', stub<Json>(steps), perform('chain', '', stub<Json>(steps), inner)),
    async sleep(ms) {
      await ask('sleep', ms, () => Promise.reject(new Error('unused')), { sleepMs: ms })
    },
    now: () => clock,
    seed: journal.seed,
  }
  const tell = async (asked: Asked, outcome: InnerOutcome, atMs: number): Promise<void> => {
    clock = atMs
    open.delete(asked.number)
    const error =
      outcome.kind === 'result' ? outcome.result.error : outcome.kind === 'error' ? outcome.error : undefined
    if (error !== undefined) asked.delivered.reject(Object.assign(new Error(error.message), { code: error.code }))
    else asked.delivered.resolve(outcome.kind === 'result' ? outcome.result.output : (outcome as { value: Json }).value)
    await turn()
  }
  program(host).then(
    (value) => {
      ended ??= { value }
    },
    (error: unknown) => {
      ended ??= { error }
    },
  )
  await turn()
  for (const { number: known, fingerprint, outcome, atMs } of journal.outcomes) {
    const asked = open.get(known)
    if (asked?.fingerprint !== fingerprint) return { error: new Error(`diverged at ${known}`) }
    fresh = fresh.filter((one) => one !== asked)
    await tell(asked, outcome, atMs)
  }
  const answers: { asked: Asked; outcome: InnerOutcome; atMs: number }[] = []
  let news = Promise.withResolvers<void>()
  const settling: Promise<unknown>[] = []
  while (ended === undefined) {
    for (const asked of fresh.splice(0)) {
      const { perform: make, delivered: _delivered, ...question } = asked
      const settled = journal.settle({ ...question, signal: inner }, make).then(
        (journaled) => {
          answers.push({ asked, ...journaled })
          news.resolve()
        },
        (error: unknown) => {
          ended ??= { error }
          news.resolve()
        },
      )
      settling.push(settled)
    }
    if (ended !== undefined) break
    if (answers.length === 0) await news.promise
    news = Promise.withResolvers()
    const next = answers.shift()
    if (next !== undefined && ended === undefined) await tell(next.asked, next.outcome, next.atMs)
  }
  stop.abort(new Error('The program has ended.'))
  await Promise.all(settling)
  return ended
}

export interface ProgramRun {
  readonly callId: string
  readonly signal?: AbortSignal
  readonly effectKey?: string
  readonly charges?: InnerCharges
  readonly sleeps?: SleepTimes
  readonly now?: () => number
  /** Wraps the journal of the program. */
  readonly through?: (journal: JournalRecords) => JournalRecords
}

/** A minimal service: programs in the queue of a database, and attempts at them. */
export class ProgramSite {
  readonly site: Site
  readonly world: World
  readonly executor: Executor

  constructor(database: Database, options: ExecutorOptions = {}) {
    this.site = new Site(database, options)
    this.world = this.site.world
    this.executor = this.site.executor
  }

  async attempt(
    program: HostProgram,
    {
      callId,
      effectKey,
      signal = new AbortController().signal,
      through = (same) => same,
      charges = free,
      ...more
    }: ProgramRun,
  ): Promise<Ended & { readonly attempt: ProgramAttempt }> {
    const fence = await this.site.claim(callId)
    this.world.alive = true
    const call = longCall(callId, 'code', effectKey === undefined ? {} : { effectKey })
    const claim = { ...heldClaim(call, fence), begun: false }
    const journal = through(this.site.journal)
    const known = await journalOf(claim, journal)
    const { executor } = this
    const attempt = createProgramAttempt({ executor, journal, claim, signal, charges, ...more }, known)
    const ended = await drive(
      program,
      attempt.journal,
      (kind, tool, args, inner) => perform(kind, tool, args, inner),
      signal,
    )
    await attempt.end()
    return { ...ended, attempt }

    function perform(kind: 'call' | 'chain', tool: string, args: Json, inner: AbortSignal) {
      return async (names: InnerNames = {}): Promise<InnerOutcome> => {
        const { program: _program, around, ...rest } = names
        if (kind === 'call') {
          return { kind: 'result', result: await executor.run(tool, args, { identity: ada, signal: inner, ...rest }) }
        }
        const steps = stub<readonly ChainStep[]>(args)
        const { output, error } = await executor.chain(steps, { identity: ada, signal: inner, around })
        return error === undefined ? { kind: 'value', value: output } : { kind: 'error', error }
      }
    }
  }
}
