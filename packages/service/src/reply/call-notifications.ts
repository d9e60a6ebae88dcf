import type { Database } from '../storage/databases/database.ts'

/**
 * Tells those who wait for calls that something happened: one listener for a process, however many wait.
 * It says only that there is something to look at. Notifications can be lost, so whoever waits also looks by himself.
 */
export interface CallNotifications {
  /** Hears of new events and of the end of one call, until the function it answers is called. */
  onCall(callId: string, hear: () => void): () => void
  /** Hears whenever there is something new to be sent, until the function it answers is called. */
  onOutbox(hear: () => void): () => void
  close(): Promise<void>
}

/** Listens for `gantry_event`, `gantry_done` and `gantry_outbox`. Whoever opened it closes it, before the database. */
export async function openCallNotifications(database: Pick<Database, 'listen'>): Promise<CallNotifications> {
  const waiting = new Map<string, Set<() => void>>()
  const senders = new Set<() => void>()

  const tell = (payload: string | undefined): void => {
    // Nobody knows which calls: a connection was made again, or the ids had no room.
    const named = payload === undefined || payload === '' ? waiting.keys() : new Set(payload.split(','))
    for (const callId of named) for (const hear of waiting.get(callId) ?? []) hear()
  }
  const events = await database.listen('gantry_event', tell)
  const done = await database.listen('gantry_done', tell)
  const outbox = await database.listen('gantry_outbox', () => {
    for (const hear of senders) hear()
  })
  return {
    onCall(callId, hear) {
      const hearers = waiting.get(callId) ?? new Set()
      waiting.set(callId, hearers.add(hear))
      return () => {
        hearers.delete(hear)
        if (hearers.size === 0 && waiting.get(callId) === hearers) waiting.delete(callId)
      }
    },
    onOutbox(hear) {
      senders.add(hear)
      return () => void senders.delete(hear)
    },
    async close() {
      await Promise.all([events(), done(), outbox()])
    },
  }
}
