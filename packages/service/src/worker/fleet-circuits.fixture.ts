import { createServer, connect as dial, type Socket } from 'node:net'
import type { TestContext } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Backend, type BreakerEvent, defineTool, type Executor } from '@gantry/core'
import { summarizeCircuits } from '@gantry/core/internal/resilience/circuit-state'
import { createExecutor } from '@gantry/tools'
import { createBus } from '../observe/bus.ts'
import type { Database } from '../storage/databases/database.ts'
import { openPostgres } from '../storage/databases/postgres.ts'
import { createFleetCircuits, type FleetCircuits, type FleetCircuitsOptions } from './fleet-circuits.ts'

/** A backend that all processes call. */
export interface SharedBackend {
  answer: () => unknown
  calls: number
}

/** A process of the fleet. */
export interface Member {
  readonly fleet: FleetCircuits
  readonly events: BreakerEvent[]
  /** The status of a call of the tool: `ok` or the code. */
  call(): Promise<string>
  readonly state: string | undefined
  /** The end of its open time, by its own clock; 0 when it is not open. */
  readonly retryAt: number
  /** Replaces the executor as a reload of the configuration does. */
  replace(): void
  readonly executor: Executor
}

export const key = 'test:it @ remote:a'

/** Opens at the second fault, for 150 to 300 ms the first time. */
const breaker = { minCalls: 2, openMs: 300, maxOpenMs: 5_000 }

export interface MemberOptions extends Partial<Pick<FleetCircuitsOptions, 'everyMs' | 'leaseMs' | 'askMs'>> {
  readonly worker: string
  readonly url: string
  readonly backend: SharedBackend
  /** Changes its database. */
  readonly changed?: (database: Database) => Database
}

/** Adds a process to the fleet; it leaves with the test. */
export async function joinFleet(t: TestContext, options: MemberOptions): Promise<Member> {
  const { worker, url, backend, changed = (same) => same, ...rest } = options
  const opened = await openPostgres({ url, connections: 3, connectMs: 1_000 })
  const bus = createBus()
  const events: BreakerEvent[] = []
  bus.on('circuit:changed', (event) => events.push(event))
  const fleet = createFleetCircuits({
    database: changed(opened),
    bus,
    worker,
    everyMs: 100,
    ...rest,
    circuits: () => executor.circuits,
  })
  const make = (): Executor => {
    const remote: Backend = {
      kind: 'remote',
      name: 'a',
      call: () => {
        backend.calls += 1
        return backend.answer()
      },
    }
    const trials = fleet.trials === undefined ? {} : { trials: fleet.trials }
    const made = createExecutor({
      backends: [remote],
      tools: [it, own],
      safeguards: { breaker, backends: { local: {} }, ...trials },
    })
    made.on('circuit:changed', (event) => bus.emit('circuit:changed', event))
    return made
  }
  let executor = make()
  await fleet.start()
  t.after(async () => {
    await fleet.stop()
    await executor.close({ graceMs: 1 })
    await opened.close()
  })
  return {
    fleet,
    events,
    async call() {
      const { status, error } = await executor.run('test:it')
      return error?.code ?? status
    },
    get state() {
      return summarizeCircuits(fleet.states()).find((one) => one.key === key)?.state
    },
    get retryAt() {
      const mine = executor.circuits.list().find((one) => one.key === key)
      return mine?.state === 'open' ? mine.retryAt : 0
    },
    replace() {
      executor = make()
    },
    get executor() {
      return executor
    },
  }
}

const inputSchema = { type: 'object' } as const
const it = defineTool({
  namespace: 'test',
  name: 'it',
  description: 'It.',
  inputSchema,
  backends: [{ kind: 'remote', name: 'a' }],
})
/** A local tool, which always throws. */
const own = defineTool({
  namespace: 'test',
  name: 'own',
  description: 'Its own.',
  inputSchema,
  run: () => {
    throw new Error('broken', { cause: 'here' })
  },
})

/** Waits until the condition holds, for half a minute at most. */
export async function until(isSo: () => unknown): Promise<void> {
  const last = performance.now() + 30_000
  while (!(await isSo())) {
    if (performance.now() > last) throw new Error(`the condition never held: ${isSo}`)
    await sleep(5)
  }
}

/** A connection to a database that can be cut, silenced, and restored. */
export async function openLink(t: TestContext, url: string) {
  const target = new URL(url)
  const sockets = new Set<Socket>()
  let way: 'open' | 'cut' | 'silent' = 'open'
  const server = createServer((near) => {
    if (way === 'cut') return near.destroy()
    const far = dial(Number(target.port), target.hostname)
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(from)
      from.on('data', (bytes) => way === 'open' && to.write(bytes))
      from.on('error', () => to.destroy())
      from.on('close', () => {
        sockets.delete(from)
        to.destroy()
      })
    }
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const end = (): void => {
    for (const socket of sockets) socket.destroy()
  }
  t.after(() => {
    end()
    server.close()
  })
  const near = new URL(url)
  near.port = String((server.address() as { port: number }).port)
  return {
    url: near.href,
    cut() {
      way = 'cut'
      end()
    },
    silence() {
      way = 'silent'
    },
    /** Bytes sent during the silence are lost, so its connections are closed. */
    repair() {
      if (way === 'silent') end()
      way = 'open'
    },
  }
}
