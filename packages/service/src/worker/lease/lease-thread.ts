import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import type { Holder } from '../../storage/calls/call-store.ts'
import { sqlCallStore } from '../../storage/calls/sql.ts'
import { openPostgres } from '../../storage/databases/postgres.ts'
import { extendHeld, type LeaseListener, readLeases } from './leases.ts'

/** Messages to the thread: the service still runs, or the thread is to end. */
export type ToLeaseThread = 'alive' | 'end'

/** Messages from the thread, about a call that was held in its last round. */
export type FromLeaseThread = { readonly lost: Holder } | { readonly cancelled: Holder }

export interface LeaseThreadData {
  /** The memory of the lease table. */
  readonly memory: SharedArrayBuffer
  readonly url: string
  readonly leaseMs: number
  /** A service that sends no message for so long loses its leases. */
  readonly blockedMs: number
}

const port = parentPort
if (port === null) throw new Error('lease-thread.ts must run in a worker thread.')
const data: LeaseThreadData = workerData
await keepLeases(port, data)

/** Renews the leases in the table until the message `end`. */
async function keepLeases(port: MessagePort, { memory, url, leaseMs, blockedMs }: LeaseThreadData): Promise<void> {
  const database = await openPostgres({ url, connections: 1 })
  const store = sqlCallStore(database)
  let receivedAt = performance.now()
  let extending: Promise<void> | undefined
  let before: ReadonlyMap<string, number> = new Map()

  const say = (message: FromLeaseThread): void => port.postMessage(message)
  const extend = (): void => {
    if (extending !== undefined || performance.now() - receivedAt > blockedMs) return
    const held = readLeases(memory)
    if (held.size === 0) return
    const holder = (callId: string): Holder => ({ callId, fence: held.get(callId) ?? 0 })
    const news: LeaseListener = {
      lost: (callId) => say({ lost: holder(callId) }),
      cancelled: (callId) => say({ cancelled: holder(callId) }),
    }
    extending = extendHeld(store, leaseMs, new Map(held), news, before).finally(() => {
      extending = undefined
    })
    before = held
  }
  const timer = setInterval(extend, leaseMs / 3)
  const end = async (): Promise<void> => {
    clearInterval(timer)
    await extending
    await database.close()
    port.close()
  }
  port.on('message', (message: ToLeaseThread) => {
    receivedAt = performance.now()
    if (message === 'end') void end()
  })
}
