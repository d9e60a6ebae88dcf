import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import type { Holder } from '../../storage/calls/call-store.ts'
import { sqlCallStore } from '../../storage/calls/sql.ts'
import { openPostgres } from '../../storage/databases/postgres.ts'
import { extendHeld, type LeaseListener, readLeases } from './leases.ts'

/** What the thread is told: that the service is still there, and to end. */
export type ToLeaseThread = 'alive' | 'end'

/** What it tells of a call that was held when it looked. */
export type FromLeaseThread = { readonly lost: Holder } | { readonly cancelled: Holder }

export interface LeaseThreadData {
  /** Of the table of what is held. */
  readonly memory: SharedArrayBuffer
  readonly url: string
  readonly leaseMs: number
  /** A service that was not heard of for so long loses its leases. */
  readonly blockedMs: number
}

const port = parentPort
if (port === null) throw new Error('This file is the program of a thread.')
await keepLeases(port, workerData as LeaseThreadData)

/** Prolongs what is held, until it is told to end. */
async function keepLeases(port: MessagePort, { memory, url, leaseMs, blockedMs }: LeaseThreadData): Promise<void> {
  const database = await openPostgres({ url, connections: 1 })
  const store = sqlCallStore(database)
  let heardAt = performance.now()
  let extending: Promise<void> | undefined
  let before: ReadonlyMap<string, number> = new Map()

  const say = (message: FromLeaseThread): void => port.postMessage(message)
  const extend = (): void => {
    if (extending !== undefined || performance.now() - heardAt > blockedMs) return
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
    heardAt = performance.now()
    if (message === 'end') void end()
  })
}
