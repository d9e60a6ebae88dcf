import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import { openPostgres } from '../databases/postgres.ts'
import type { Holder } from '../stores/call-store.ts'
import { sqlCallStore } from '../stores/sql.ts'
import { extendHeld } from './leases.ts'

/** What the thread is told: calls to hold, calls to let go of, and that the service is still there. */
export type ToLeaseThread =
  | { readonly hold: readonly Holder[]; readonly drop: readonly string[] }
  | { readonly alive: true }
  | { readonly end: true }

export type FromLeaseThread = { readonly lost: string } | { readonly cancelled: string }

export interface LeaseThreadData {
  readonly url: string
  readonly leaseMs: number
  /** A service that was not heard of for so long loses its leases. */
  readonly blockedMs: number
}

const port = parentPort
if (port === null) throw new Error('This file is the program of a thread.')
await keepLeases(port, workerData as LeaseThreadData)

/** Prolongs what it was told to hold, until it is told to end. */
async function keepLeases(port: MessagePort, { url, leaseMs, blockedMs }: LeaseThreadData): Promise<void> {
  const database = await openPostgres({ url, connections: 1 })
  const store = sqlCallStore(database)
  const held = new Map<string, number>()
  let heardAt = performance.now()
  let extending: Promise<void> | undefined

  const extend = (): void => {
    if (held.size === 0 || extending !== undefined || performance.now() - heardAt > blockedMs) return
    extending = extendHeld(store, leaseMs, held, {
      lost: (lost) => port.postMessage({ lost } satisfies FromLeaseThread),
      cancelled: (cancelled) => port.postMessage({ cancelled } satisfies FromLeaseThread),
    }).finally(() => {
      extending = undefined
    })
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
    if ('end' in message) return void end()
    if (!('hold' in message)) return
    // A call that was let go of may have come again since.
    for (const callId of message.drop) held.delete(callId)
    for (const { callId, fence } of message.hold) held.set(callId, fence)
  })
}
