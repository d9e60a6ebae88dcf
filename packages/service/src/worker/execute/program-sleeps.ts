import { setTimeout as delay } from 'node:timers/promises'
import type { JournalEntry } from '../../storage/journal.ts'
import type { OrderedWriter } from './ordered-writer.ts'
import { readTime } from './program-entries.ts'

export interface SleepTimes {
  /** What takes no longer is simply waited for, and from the beginning by a later attempt. */
  readonly shortMs: number
  /** So long a sleep keeps its worker; then, when nothing else goes on, the call is handed back until it ends. */
  readonly holdMs: number
}

export const defaultSleepTimes: SleepTimes = { shortMs: 2_000, holdMs: 500 }

/** The long sleeps of a program. When one ends is written down, so that it ends then whoever has the program. */
export interface Sleeps {
  /** False when the program is to be handed back, for which `idle` says whether it may be. */
  sleep(entry: string, ms: number, idle: () => boolean, signal: AbortSignal): Promise<boolean>
  /** When the first of those that are under way ends. */
  readonly wakeMs: number | undefined
}

export function createSleeps(
  {
    writer,
    known,
    now,
  }: {
    readonly writer: Pick<OrderedWriter, 'add'>
    readonly known: ReadonlyMap<string, JournalEntry>
    readonly now: () => number
  },
  { holdMs }: SleepTimes,
): Sleeps {
  const underWay = new Map<string, number>()
  return {
    async sleep(entry, ms, idle, signal) {
      const kept = readTime(known, entry)
      const wakeMs = kept ?? now() + ms
      if (kept === undefined) writer.add({ entry, result: String(wakeMs) }).catch(() => undefined)
      underWay.set(entry, wakeMs)
      for (let left = wakeMs - now(); left > 0; left = wakeMs - now()) {
        await delay(Math.min(left, holdMs), undefined, { signal })
        if (wakeMs - now() > holdMs && idle()) return false
      }
      underWay.delete(entry)
      return true
    },
    get wakeMs() {
      return underWay.size === 0 ? undefined : Math.min(...underWay.values())
    },
  }
}
