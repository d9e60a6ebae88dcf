import { setTimeout as sleep } from 'node:timers/promises'
import type { CircuitControl, SafeguardOptions } from '@gantry/core'
import { circuitKey, readCircuitKey, type TenantState } from '@gantry/core/internal/resilience/circuit-summary'
import type { Bus, WorkerEvents } from '../observe/bus.ts'
import {
  type CircuitReset,
  circuitChannel,
  circuitRecords,
  resetChannel,
  type SharedCircuit,
} from '../storage/circuits.ts'
import type { Database } from '../storage/databases/database.ts'
import { startPeriodicJobs } from '../storage/periodic-jobs.ts'

export interface FleetCircuitsOptions {
  readonly database: Database
  readonly bus: Bus
  /** The name of this process among all. */
  readonly worker: string
  /** The circuits of the present configuration; asked for from `start` on. */
  readonly circuits: () => CircuitControl
  /** How often it looks for what it did not hear. */
  readonly everyMs?: number
  /** How long a worker that does not renew it keeps a trial; several times `everyMs`. */
  readonly leaseMs?: number
  /** How long a call waits for the answer whether it may be a trial. */
  readonly askMs?: number
}

/** The circuits of this process as part of a fleet's. */
export interface FleetCircuits {
  /** For the safeguards of the executor; absent where nobody else has this database. */
  readonly trials?: NonNullable<SafeguardOptions['trials']>
  start(): Promise<void>
  /** Tells the others what they do not know, and takes over what they know; never rejects. */
  sync(): Promise<void>
  /** As the fleet sees them: a circuit that is tried elsewhere is on trial. */
  states(): readonly TenantState[]
  /** Closes a circuit in every process; whether it was not closed here or in the table. */
  reset(reset: CircuitReset): Promise<boolean>
  stop(): Promise<void>
}

/** What this process found out and the table does not know yet. */
type Change = { readonly kind: 'opened'; readonly until: number; readonly streak: number } | { readonly kind: 'closed' }

/**
 * Shares circuits with all who have the same database: those of each tenant, and the shared ones that several tenants
 * opened, each under its key.
 *
 * The table says which circuits are open; a process follows it. What opens or closes here is written soon, together with
 * whatever else there is to write, and no call waits for that. Then, when others tell of a change, and every few seconds
 * in case that was not heard, the table is read: what is in it is held open here, and what is not is closed, except for
 * what changed here in the meantime, which is written first. When a rest is over, a call asks for the trial in the
 * table and waits for the answer; the lease is renewed for as long as the trial runs, and goes back when none began.
 *
 * While the database does not answer, each process is on its own, as if it were alone; what it found out is written
 * when the database is back.
 */
export function createFleetCircuits(options: FleetCircuitsOptions): FleetCircuits {
  const { circuits } = options
  if (!options.database.exclusive) return sharedCircuits(options)
  const nothing = async (): Promise<void> => undefined
  const reset = async ({ circuit, tenant }: CircuitReset): Promise<boolean> => circuits().reset(circuit, tenant)
  return { start: nothing, sync: nothing, states: () => circuits().states(), reset, stop: nothing }
}

function sharedCircuits(options: FleetCircuitsOptions): FleetCircuits {
  const { database, bus, worker, circuits, everyMs = 3_000, leaseMs = 12_000, askMs = 5_000 } = options
  const records = circuitRecords(database)
  const unwritten = new Map<string, Change>()
  /** Trials that this process was granted, and when. */
  const granted = new Map<string, number>()
  const asking = new Map<string, Promise<number>>()
  const ends: (() => unknown)[] = []
  let elsewhere: ReadonlyMap<string, SharedCircuit> = new Map()
  let away = false

  const hear = (event: WorkerEvents['circuit:changed']): void => {
    const key = circuitKey(event.name, event.tenant)
    if (event.elsewhere === true || event.kind === 'trial' || isOfThisMachine(key)) return
    granted.delete(key)
    unwritten.set(key, changeOf(event))
    void sync()
  }
  const write = async (): Promise<void> => {
    const changes = [...unwritten]
    const opened = changes.flatMap(([key, change]) =>
      change.kind === 'opened' ? [{ key, restMs: change.until - performance.now(), streak: change.streak }] : [],
    )
    const closed = changes.flatMap(([key, change]) => (change.kind === 'closed' ? [key] : []))
    if (opened.length > 0) await records.open(opened, worker)
    if (closed.length > 0) await records.close(closed, worker)
    // What changed again in the meantime is for the next time.
    for (const [key, change] of changes) if (unwritten.get(key) === change) unwritten.delete(key)
  }
  const keepTrials = async (): Promise<void> => {
    if (granted.size === 0) return
    const running = new Set(keysIn(circuits(), 'trial'))
    const keys = [...granted.keys()]
    const renewed = keys.filter((key) => running.has(key))
    // One that was granted just now is about to begin.
    const left = keys.filter((key) => !running.has(key) && performance.now() - (granted.get(key) ?? 0) > everyMs)
    for (const key of left) granted.delete(key)
    if (renewed.length > 0) await records.renewTrials(renewed, worker, leaseMs)
    if (left.length > 0) await records.leaveTrials(left, worker)
  }
  const look = async (): Promise<void> => {
    const rows = new Map((await records.list()).map((row) => [row.key, row]))
    const control = circuits()
    elsewhere = rows
    for (const [key, { restMs, streak }] of rows) if (!unwritten.has(key)) control.hold(key, restMs, streak)
    for (const key of keysIn(control, 'open', 'trial')) {
      if (!rows.has(key) && !unwritten.has(key) && !isOfThisMachine(key)) control.close(key)
    }
  }
  // One after the other, so that what is read was read after all that was written.
  const sync = oneAtATime(async () => {
    try {
      await write()
      await keepTrials()
      await look()
      away = false
    } catch {
      away = true
    }
  })

  const claim = async (key: string): Promise<number> => {
    if (unwritten.has(key)) await sync()
    if (unwritten.has(key)) return 0
    const answer = await records.claimTrial(key, worker, leaseMs)
    if (answer.kind === 'wait') return answer.waitMs
    if (answer.kind === 'closed') circuits().close(key)
    else {
      granted.set(key, performance.now())
      // Should the trial fail, the next rest is longer than the last one of the fleet.
      circuits().hold(key, 0, answer.streak)
    }
    return 0
  }
  const closeHere = ({ circuit, tenant }: CircuitReset): boolean => {
    for (const key of unwritten.keys()) {
      const one = readCircuitKey(key)
      if (one.circuit === circuit && (tenant === undefined || one.tenant === tenant)) unwritten.delete(key)
    }
    return circuits().reset(circuit, tenant)
  }
  const hearReset = (text: string | undefined): void => {
    if (text === undefined) return
    const { circuit, tenant, worker: from } = JSON.parse(text) as CircuitReset & { readonly worker: string }
    if (from !== worker) closeHere({ circuit, ...(tenant === undefined ? {} : { tenant }) })
  }
  /** An answer that does not come soon is none. */
  const ask = async (key: string): Promise<number> => {
    const answered = new AbortController()
    const late = async (): Promise<number> => {
      await sleep(askMs, undefined, { signal: answered.signal })
      throw new Error('The database does not answer.')
    }
    try {
      return await Promise.race([claim(key), late()])
    } catch {
      away = true
      return 0
    } finally {
      answered.abort()
      asking.delete(key)
    }
  }
  const shared = (key: string): Promise<number> => {
    const asked = asking.get(key) ?? ask(key)
    asking.set(key, asked)
    return asked
  }
  return {
    trials: async (key) => (away || isOfThisMachine(key) ? 0 : shared(key)),
    async start() {
      ends.push(bus.on('circuit:changed', hear))
      ends.push(await database.listen(circuitChannel, (from) => from !== worker && void sync()))
      ends.push(await database.listen(resetChannel, hearReset))
      await sync()
      ends.push(startPeriodicJobs([{ name: 'circuits', everyMs, work: sync }], bus))
    },
    sync,
    async reset(reset) {
      const closed = closeHere(reset)
      // What this process is about to write must not come after the removal, and what it has read must not stay.
      await sync()
      const removed = await records.reset(reset, worker)
      closeHere(reset)
      await sync()
      return removed || closed
    },
    states: () =>
      circuits()
        .states()
        .map((one) => asTried(one, elsewhere.get(one.key))),
    async stop() {
      await Promise.all(ends.splice(0).map((end) => end()))
      if (unwritten.size > 0) await sync()
      if (granted.size > 0) await records.leaveTrials([...granted.keys()], worker).catch(() => undefined)
    },
  }
}

function changeOf(event: WorkerEvents['circuit:changed']): Change {
  if (event.kind !== 'opened') return { kind: 'closed' }
  return { kind: 'opened', until: performance.now() + event.retryAt - event.at, streak: event.streak }
}

/** What runs in this process or on this machine fails here, and not for the others. */
function isOfThisMachine(key: string): boolean {
  // The tool comes first and has no space in it; what follows the backend can be the word of a caller or a tenant.
  const backend = key.slice(key.indexOf(' @ ') + 3)
  return /^(?:local|sandboxed|session)(?:[: ]|$)/.test(backend)
}

function keysIn(control: CircuitControl, ...wanted: readonly TenantState['state'][]): string[] {
  return control.states().flatMap(({ key, state }) => (wanted.includes(state) ? [key] : []))
}

function asTried(circuit: TenantState, shared: SharedCircuit | undefined): TenantState {
  if (circuit.state !== 'open' || shared?.trialBy === undefined) return circuit
  const { retryAt: _, ...rest } = circuit
  return { ...rest, state: 'trial', since: Date.now() - shared.sinceMs }
}

/** Does work never beside itself; who asks while it is done has it done once more, together with all who ask. */
function oneAtATime(work: () => Promise<void>): () => Promise<void> {
  let running: Promise<void> | undefined
  let next: Promise<void> | undefined
  const run = (): Promise<void> => {
    running ??= work().finally(() => {
      running = undefined
    })
    return running
  }
  return () => {
    if (running === undefined) return run()
    next ??= running.then(() => {
      next = undefined
      return run()
    })
    return next
  }
}
