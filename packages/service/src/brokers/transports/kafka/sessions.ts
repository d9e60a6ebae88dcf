import { setTimeout as delay } from 'node:timers/promises'
import type { Library } from './client.ts'
import type { MemberOptions } from './member.ts'
import { openSession, type Session, type SessionEvents } from './session.ts'

/** One session after the other, until it is closed. */
export interface Sessions {
  /** The one that goes on now, if any. */
  readonly current: Session | undefined
  close(): Promise<void>
}

const firstPauseMs = 250
const longestPauseMs = 10_000

/**
 * Opens a session; when it fails, or cannot be opened, another one after a pause, each up to twice as long as the one
 * before, so that many who lost the same broker do not come back at the same moment.
 */
export function keepSession(library: Library, options: MemberOptions, events: SessionEvents): Sessions {
  const stop = new AbortController()
  const { signal } = stop
  const ended = Promise.withResolvers<void>()
  let current: Session | undefined

  const run = async (): Promise<void> => {
    for (let pauseMs = firstPauseMs; !signal.aborted; pauseMs = Math.min(longestPauseMs, pauseMs * 2)) {
      try {
        current = await openSession(library, options, events, signal)
        pauseMs = firstPauseMs
        events.alive()
        events.failed(await Promise.race([current.failed, ended.promise]))
      } catch (error) {
        events.failed(error)
      }
      await current?.close()
      current = undefined
      events.assigned()
      await delay(pauseMs * (0.5 + Math.random() / 2), undefined, { signal }).catch(() => {})
    }
  }
  const running = run()
  return {
    get current() {
      return current
    },
    async close() {
      stop.abort()
      ended.resolve()
      await running
    },
  }
}
