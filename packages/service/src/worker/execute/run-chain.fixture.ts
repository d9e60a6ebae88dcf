import {
  type ChainResult,
  type ChainStep,
  type Identity,
  type OnCircuitOpen,
  type Report,
  ToolError,
} from '@gantry/contract'
import { type DefinedTool, defineTool, type Executor, type ToolContext } from '@gantry/core'
import { createExecutor, type ExecutorOptions } from '@gantry/tools'
import { heldClaim, longCall } from '../../storage/calls/claim.fixture.ts'
import type { Database } from '../../storage/databases/database.ts'
import { type JournalRecords, journalRecords } from '../../storage/journal.ts'
import { createInnerCharges, type InnerGate } from './inner-charges.ts'
import { runDurableChain } from './run-chain.ts'

const ada: Identity = { principal: 'ada', tenant: 'lab', permissions: [] }
const inputSchema = { type: 'object' } as const

/** The outside world: it outlives every attempt, and records each call that reached it. */
export class World {
  /** Journal entries of the calls that ran, in order. */
  readonly runs: string[] = []
  /** The effects of tools with keys and lookups, by key. */
  readonly bank = new Map<string, unknown>()
  readonly keys = new Map<string, string>()
  /** A process that died runs nothing any more. */
  alive = true
  /** Called within the next run of a tool. */
  meanwhile: ((context: ToolContext, entry: string) => unknown) | undefined

  /** The number of runs of an entry. */
  count(entry: string): number {
    return this.runs.filter((run) => run === entry).length
  }

  tools(): DefinedTool[] {
    const tool = (
      effect: 'read' | 'keyed' | 'once' | 'repeatable',
      given: { name?: string; cost?: number; onCircuitOpen?: OnCircuitOpen } = {},
    ) =>
      defineTool({
        namespace: 'world',
        name: effect,
        description: `Has the effect ${effect}.`,
        inputSchema,
        effect,
        ...given,
        run: (args, context) => this.#run(args, context),
      })
    const pay = defineTool({
      namespace: 'world',
      name: 'pay',
      description: 'Pays, and can tell whether it did.',
      inputSchema,
      effect: 'reconcilable',
      run: (args, context) => this.#run(args, context),
      lookup: (key) => (this.bank.has(key) ? { found: true, output: this.bank.get(key) } : { found: false }),
    })
    const dear = tool('read', { name: 'dear', cost: 7 })
    const patient = tool('once', { name: 'patient', onCircuitOpen: 'wait' })
    return [tool('read'), tool('keyed'), tool('once'), tool('repeatable'), dear, pay, patient]
  }

  async #run(args: unknown, context: ToolContext): Promise<unknown> {
    if (!this.alive) throw new Error('The process is gone.')
    const entry = context.callId.slice(context.callId.indexOf('.') + 1)
    this.runs.push(entry)
    this.keys.set(`${entry} ${context.idempotencyKey}`, context.identity.principal)
    await this.meanwhile?.(context, entry)
    this.bank.set(context.idempotencyKey, args)
    return args
  }
}

export interface Attempt {
  readonly steps: readonly ChainStep[]
  readonly callId: string
  readonly signal?: AbortSignal
  readonly input?: number
  readonly timeoutMs?: number
  readonly onCircuitOpen?: OnCircuitOpen
  /** Wraps the journal of the chain. */
  readonly through?: (journal: JournalRecords) => JournalRecords
}

export const unlimited: InnerGate = { inside: () => undefined, mostAtOnce: () => Number.POSITIVE_INFINITY }

/** A minimal service: calls in the queue of a database, and attempts at them. */
export class Site {
  readonly world = new World()
  readonly executor: Executor
  readonly journal: JournalRecords
  readonly reports: Report[] = []
  gate = unlimited
  readonly #database: Database

  constructor(database: Database, options: ExecutorOptions = {}) {
    this.#database = database
    this.executor = createExecutor({ tools: this.world.tools(), safeguards: { breaker: false }, ...options })
    this.journal = journalRecords(database)
  }

  /** Claims the call, under a fence that is higher than any before. */
  async claim(callId: string): Promise<number> {
    const sql = `insert into queue (call_id, tenant, fence) values ($1, 'lab', 1)
      on conflict (call_id) do update set fence = queue.fence + 1 returning fence`
    const [row] = await this.#database.query<{ fence: number }>(sql, [callId])
    return row?.fence ?? 0
  }

  async attempt(asked: Attempt): Promise<ChainResult> {
    const { steps, callId, signal, input, timeoutMs, onCircuitOpen, through = (same) => same } = asked
    const fence = await this.claim(callId)
    this.world.alive = true
    const call = longCall(callId, 'chain', {
      ...(timeoutMs === undefined ? {} : { timeoutMs }),
      ...(onCircuitOpen === undefined ? {} : { onCircuitOpen }),
    })
    return runDurableChain({
      executor: this.executor,
      journal: through(this.journal),
      charges: createInnerCharges(this.gate, this.executor, ada),
      claim: heldClaim(call, fence),
      payload: { steps, ...(input === undefined ? {} : { input }) },
      signal: signal ?? new AbortController().signal,
      report: (report) => void this.reports.push(report),
    })
  }

  /** A journal whose process dies at its nth write, before or after the write. */
  dyingAt(place: number, when: 'before' | 'after'): (journal: JournalRecords) => JournalRecords {
    let writes = 0
    const dead = (): never => {
      this.world.alive = false
      throw new ToolError('INTERNAL', 'The process died.')
    }
    const dying = async (work: () => Promise<boolean>): Promise<boolean> => {
      const here = writes++ === place
      if (!this.world.alive || (here && when === 'before')) dead()
      const held = await work()
      return here ? dead() : held
    }
    return (journal) => ({
      begin: (holder, entry) => dying(() => journal.begin(holder, entry)),
      done: (holder, entry, result) => dying(() => journal.done(holder, entry, result)),
      forget: (holder, entry) => dying(() => journal.forget(holder, entry)),
      writeAll: (holder, entries) => dying(() => journal.writeAll(holder, entries)),
      read: (callId) => journal.read(callId),
    })
  }

  /** The journal entries of a call in a state. */
  async entries(callId: string, state: 'begun' | 'done'): Promise<readonly string[]> {
    const entries = [...(await this.journal.read(callId))]
    return entries.flatMap(([entry, known]) => (known.state === state ? [entry] : [])).toSorted()
  }
}
