import { setTimeout as delay } from 'node:timers/promises'
import { clientOptions, closeClient, createTopic, isUnknownTopic, type Library, quiet, whileOpen } from './client.ts'
import { joinGroup, type Member, type MemberEvents, type MemberOptions } from './member.ts'
import { createReader, type Reader, type ReaderEvents } from './reader.ts'

/** A member of the group and its reader, from joining until it fails or is closed. */
interface Session {
  readonly member: Member
  readonly reader: Reader
  /** Resolves with the reason when it cannot go on; whoever opened it still has to close it. */
  readonly failed: Promise<unknown>
  close(): Promise<void>
}

type SessionEvents = ReaderEvents & MemberEvents

/** Rejects when the cluster cannot be reached or does not let us in. */
async function openSession(
  library: Library,
  options: MemberOptions,
  events: SessionEvents,
  signal: AbortSignal,
): Promise<Session> {
  await needTopics(library, options, signal)
  const failed = Promise.withResolvers<unknown>()
  const parts: { reader?: Reader } = {}
  const heard: MemberEvents = {
    ...events,
    assigned() {
      events.assigned()
      parts.reader?.look()
    },
    failed: failed.resolve,
  }
  const member = await joinGroup(library, options, heard, signal)
  const reader = createReader(library, options, member, events)
  parts.reader = reader
  reader.look()
  return {
    member,
    reader,
    failed: failed.promise,
    async close() {
      await Promise.all([reader.close(), member.close()])
    },
  }
}

/** A topic that is not there yet is made, where we may; a group for a topic that is missing cannot be shared out. */
async function needTopics(library: Library, options: MemberOptions, signal: AbortSignal): Promise<void> {
  const client = quiet(new library.Admin(clientOptions(options)))
  try {
    for (const topic of options.topics) {
      try {
        await whileOpen(client, signal, () => client.metadata({ topics: [topic], retries: 0 }))
      } catch (error) {
        if (!isUnknownTopic(error)) throw error
        await createTopic(library, options, topic)
      }
    }
  } finally {
    await closeClient(client)
  }
}

/** One session after the other, until it is closed. */
interface Sessions {
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
