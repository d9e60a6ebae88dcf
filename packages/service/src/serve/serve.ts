import { join } from 'node:path'
import type { LoadedConfig } from '../config/config.ts'
import { apiKeyAuthenticator, ensureApiKey } from '../http/api-key.ts'
import { createHttpServer, type HttpServer } from '../http/server.ts'
import { createLog, logEvents } from '../observe/logs.ts'
import { createBus } from '../stores/bus.ts'
import { removeAddress, type ServiceAddress, writeAddress } from './address.ts'
import { callbackKeys } from './callback-keys.ts'
import { createSnapshot } from './snapshot.ts'
import { startService } from './start.ts'
import { openStorage } from './storage.ts'
import { watchConfig } from './watch-config.ts'

export interface ServeOptions {
  /** Reads the configuration, each time anew. */
  readonly load: () => Promise<LoadedConfig>
  /** For the one who started it. */
  readonly say: (line: string) => void
  /** For what it tells while it runs, a line of JSON each. */
  readonly log: { write(line: string): void }
  /** Called once it takes calls. */
  readonly ready: (url: string | undefined) => void
  /** Aborts when it is to stop. */
  readonly signal: AbortSignal
}

/** Runs the service until its signal aborts, and resolves when everything is closed. */
export async function serve({ load, say, log: stream, ready, signal }: ServeOptions): Promise<void> {
  const loaded = await load()
  const { service: settings } = loaded
  const log = createLog(settings.logLevel, stream)
  const bus = createBus()
  const unhear = logEvents(bus, log)
  const { database, files } = await openStorage(settings, say)
  let unused: LoadedConfig | undefined = loaded
  try {
    const running = await startService({
      ...{ settings, database, files, bus },
      async snapshot(additions) {
        const now = unused ?? (await load())
        unused = undefined
        return createSnapshot(now, additions, bus)
      },
      callbackKey: await callbackKeys(settings, loaded),
    })
    const stopWatching = watchConfig(loaded.file, running.reload, log)
    let doors: Doors | undefined
    try {
      doors = await openDoors(loaded, running.service, log)
      ready(doors?.http.url)
      await aborted(signal)
      log.info({ graceMs: settings.graceMs }, 'stopping: no more calls are taken')
      if (doors !== undefined) await removeAddress(settings.data, doors.written)
    } finally {
      stopWatching()
      // Without doors nobody has begun anything here that is worth waiting for.
      await running.stop(doors === undefined && !signal.aborted ? 0 : settings.graceMs)
      await doors?.http.close({ graceMs: 1_000 })
    }
  } finally {
    await database.close()
    unhear()
  }
}

interface Doors {
  readonly http: HttpServer
  readonly written: ServiceAddress
}

/** The HTTP door, for those who have the key; undefined in a process that only works. */
async function openDoors(
  { service: settings, file, options }: LoadedConfig,
  service: Parameters<typeof createHttpServer>[0]['service'],
  log: Parameters<typeof createHttpServer>[0]['log'],
): Promise<Doors | undefined> {
  if (!settings.roles.includes('api')) return undefined
  const { key } = await ensureApiKey(join(settings.data, 'key'))
  const owner = options.identity ?? { principal: 'owner', tenant: 'default', permissions: ['*'] }
  const http = await createHttpServer({
    ...{ service, log, host: settings.host, port: settings.port },
    authenticate: apiKeyAuthenticator(key, owner),
    limits: { bodyBytes: settings.bodyBytes },
  })
  const written = { url: http.url, pid: process.pid, config: file ?? null }
  await writeAddress(settings.data, written)
  return { http, written }
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), { once: true })
  })
}
