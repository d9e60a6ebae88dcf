import { ToolError } from '@gantry/contract'
import { isObject, isText } from '@gantry/contract/internal/json'
import type { CircuitControl, SafeguardOptions } from '@gantry/core'
import { within } from '@gantry/core/internal/resilience/abort'
import { circuitKey, readCircuitKey, type TenantState } from '@gantry/core/internal/resilience/circuit-state'
import type { Bus, WorkerEvents } from '../observe/bus.ts'
import { observedOperation } from '../observe/dependency-health.ts'
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
  /** The circuits of the current configuration; read from `start` on. */
  readonly circuits: () => CircuitControl
  /** The interval of polling without a notification. */
  readonly everyMs?: number
  /** The time that a worker keeps a trial without renewing it; several times `everyMs`. */
  readonly leaseMs?: number
  /** The timeout of a call's claim to the trial. */
  readonly askMs?: number
}

/** The circuits of this process as part of a fleet's. */
export interface FleetCircuits {
  /** For the safeguards of the executor; absent where no other process uses this database. */
  readonly trials?: NonNullable<SafeguardOptions['trials']>
  start(): Promise<void>
  /** Writes the changes of this process and applies those of others; never rejects. */
  sync(): Promise<void>
  /** As the fleet sees them: a circuit whose trial runs in another process is on trial. */
  states(): readonly TenantState[]
  /** Closes a circuit in every process; resolves with whether it was open here or in the table. */
  reset(reset: CircuitReset): Promise<boolean>
  stop(): Promise<void>
}

/** A change of this process that is not in the table yet. */
type Change = { readonly kind: 'opened'; readonly until: number; readonly streak: number } | { readonly kind: 'closed' }

/**
 * Shares circuits with all processes that have the same database: those of each tenant, and the shared ones that several
 * tenants opened, each under its key. The table lists the open circuits, and each process follows it.
 *
 * ## Transitions
 * - A circuit opens or closes here: the change is written soon, in a batch; no call waits for the write.
 * - Another process notifies of a change, or a few seconds have passed: the table is read. Circuits in it are held open
 *   here and all others are closed, except those that changed here since, which are written first.
 * - The open time of a circuit ends: a call claims the trial in the table and waits for the answer. The lease of the trial
 *   is renewed while it runs, and released when no trial began.
 * - The database is unavailable: each process decides alone, and writes its changes when the database is back.
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
  const sharing = observedOperation(bus, { dependency: 'database', operation: 'share circuits' })

  const listener = (event: WorkerEvents['circuit:changed']): void => {
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
    // A circuit that changed again in the meantime is written the next time.
    for (const [key, change] of changes) if (unwritten.get(key) === change) unwritten.delete(key)
  }
  const keepTrials = async (): Promise<void> => {
    if (granted.size === 0) return
    const running = new Set(keysIn(circuits(), 'trial'))
    const keys = [...granted.keys()]
    const renewed = keys.filter((key) => running.has(key))
    // A trial that was granted just now is about to begin.
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
  // In sequence, so that each read follows all earlier writes.
  const sync = oneAtATime(async () => {
    try {
      await write()
      await keepTrials()
      await look()
      sharing.worked()
    } catch (error) {
      sharing.failed(error)
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
      // If the trial fails, the next open time is longer than the last one of the fleet.
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
  const onReset = (text: string | undefined): void => {
    if (text === undefined) return
    const reset: unknown = JSON.parse(text)
    if (!isObject(reset) || !isText(reset.circuit) || reset.worker === worker) return
    closeHere({ circuit: reset.circuit, ...(isText(reset.tenant) ? { tenant: reset.tenant } : {}) })
  }
  /** A claim that is not answered in time fails. */
  const ask = async (key: string): Promise<number> => {
    const late = (): never => {
      throw new ToolError('STORE_UNAVAILABLE', 'The database does not answer.')
    }
    try {
      return await within(askMs, claim(key), late)
    } catch (error) {
      sharing.failed(error)
      return 0
    } finally {
      asking.delete(key)
    }
  }
  const shared = (key: string): Promise<number> => {
    const asked = asking.get(key) ?? ask(key)
    asking.set(key, asked)
    return asked
  }
  return {
    trials: async (key) => (sharing.failing || isOfThisMachine(key) ? 0 : shared(key)),
    async start() {
      ends.push(bus.on('circuit:changed', listener))
      ends.push(await database.listen(circuitChannel, (from) => from !== worker && void sync()))
      ends.push(await database.listen(resetChannel, onReset))
      await sync()
      ends.push(startPeriodicJobs([{ name: 'circuits', everyMs, work: sync }], bus))
    },
    sync,
    async reset(reset) {
      const closed = closeHere(reset)
      // A pending write of this process must not follow the removal, and what it has read must not stay.
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

/** A local tool or a process on this machine fails here, and not for the others. */
function isOfThisMachine(key: string): boolean {
  // The tool comes first and has no space in it; the text after the backend may come from a caller or a tenant.
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

/** Runs work that never overlaps itself; requests during a run share one further run. */
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
