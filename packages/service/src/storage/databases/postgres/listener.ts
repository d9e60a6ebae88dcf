import type pg from 'pg'
import type { Database } from '../database.ts'
import { type Channels, createChannels, quoted } from '../wire/channels.ts'
import { closedError, connectError } from '../wire/errors.ts'

export interface Listener {
  readonly listen: Database['listen']
  close(): Promise<void>
}

const firstPauseMs = 100
const longestPauseMs = 10_000
/** A connection that was cut without a word is found out by asking. */
const askEveryMs = 15_000

/**
 * Hears notifications over a connection of its own.
 *
 * It is *off* until somebody listens. Then a connection is *made*, on which every channel is named; if that fails while
 * nobody else listens, it is off again and the listener is told. When an *open* connection ends, or making it again
 * fails, the next is made after a pause that grows, for as long as somebody listens; once it is open everybody hears
 * `undefined`, because what was said in between is lost.
 */
export function createListener(open: () => pg.Client): Listener {
  const channels = createChannels()
  let connection: Connection | undefined
  let retry: NodeJS.Timeout | undefined
  let failures = 0
  let closed = false

  const connected = async (): Promise<Connection> => {
    connection ??= watched(connect(open(), channels))
    const current = connection
    await current.ready
    failures = 0
    return current
  }
  const watched = (made: Connection): Connection => {
    void made.ended.then(() => {
      connection = undefined
      retryLater()
    })
    return made
  }
  const retryLater = (): void => {
    if (closed || retry !== undefined || channels.names().length === 0) return
    const pauseMs = Math.min(firstPauseMs * 2 ** failures, longestPauseMs)
    failures += 1
    retry = setTimeout(again, pauseMs * (0.5 + Math.random() / 2))
  }
  const again = (): void => {
    retry = undefined
    connected().then(() => channels.tellAll(), retryLater)
  }
  return {
    async listen(channel, hear) {
      if (closed) throw closedError()
      const entry = (payload: string | undefined): void => hear(payload)
      channels.add(channel, entry)
      try {
        await (await connected()).say(`listen ${quoted(channel)}`)
      } catch (error) {
        channels.remove(channel, entry)
        throw connectError(error)
      }
      return async () => {
        if (channels.remove(channel, entry)) await connection?.say(`unlisten ${quoted(channel)}`).catch(() => {})
      }
    },
    async close() {
      closed = true
      clearTimeout(retry)
      const current = connection
      current?.end()
      await current?.ended
    },
  }
}

interface Connection {
  /** Rejects when it cannot be made. */
  readonly ready: Promise<void>
  /** Resolves when it is gone, also when it was never made. */
  readonly ended: Promise<void>
  /** One statement after another. */
  say(sql: string): Promise<void>
  end(): void
}

function connect(client: pg.Client, channels: Channels): Connection {
  const ended = new Promise<void>((resolve) => client.once('end', resolve))
  const end = (): void => void client.connection.stream.destroy()
  let last = Promise.resolve()
  const say = (sql: string): Promise<void> => {
    const said = last.then(async () => void (await client.query(sql)))
    last = said.catch(() => {})
    return said
  }
  const make = async (): Promise<void> => {
    await client.connect()
    for (const channel of channels.names()) await say(`listen ${quoted(channel)}`)
  }
  client.on('error', () => {})
  client.on('notification', ({ channel, payload }) => channels.tell(channel, payload ?? ''))
  const ready = make()
  ready.catch(end)
  const asking = setInterval(() => void say('select 1').catch(end), askEveryMs).unref()
  void ended.then(() => clearInterval(asking))
  return { ready, ended, say, end }
}
