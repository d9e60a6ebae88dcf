import { join } from 'node:path'
import { ToolError } from '@gantry/contract'
import type { LoadedConfig } from '../config/config.ts'
import type { ServiceSettings } from '../config/service-settings.ts'
import { apiKeyAuthenticator, ensureApiKey } from '../http/api-key.ts'
import { createHttpServer } from '../http/server.ts'
import { createLog, logEvents } from '../observe/logs.ts'
import { createBus } from '../stores/bus.ts'
import { removeAddress, writeAddress } from './address.ts'
import { type Brokers, openBrokers } from './brokers/open.ts'
import { callbackKeys } from './callback-keys.ts'
import { serveMetrics } from './metrics-server.ts'
import { createSnapshot } from './snapshot.ts'
import { owner, startService, workerName } from './start.ts'
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
  refuseLonely(settings)
  const log = createLog(settings.logLevel, stream)
  const bus = createBus()
  const unhear = logEvents(bus, log)
  const { database, files } = await openStorage(settings, say, loaded.options.secrets)
  let unused: LoadedConfig | undefined = loaded
  let latest = loaded
  const name = workerName()
  const identity = loaded.options.identity ?? owner
  let brokers: Brokers | undefined
  try {
    brokers = await openBrokers({
      ...{ settings: settings.brokers, name, identity, secrets: loaded.options.secrets, say },
      takes: settings.roles.includes('worker'),
    })
    const running = await startService({
      ...{ settings, database, files, bus, brokers, name, identity },
      latest: () => latest.service.brokers,
      async snapshot(additions) {
        latest = unused ?? (await load())
        unused = undefined
        return createSnapshot(latest, additions, bus)
      },
      callbackKey: await callbackKeys(settings, loaded),
    })
    const closing: (() => void | Promise<void>)[] = []
    try {
      closing.push(watchConfig(loaded.file, running.reload, log))
      const doors = await openDoors(loaded, running.service, log)
      if (doors !== undefined) closing.push(doors.close)
      const { metricsHost, metricsPort } = settings
      if (metricsPort !== undefined) closing.push(await serveMetrics(metricsHost, metricsPort, running.service))
      await running.consuming(signal)
      if (!signal.aborted) ready(doors?.url)
      await aborted(signal)
      log.info({ graceMs: settings.graceMs }, 'stopping: no more calls are taken')
      await doors?.leave()
    } finally {
      // Who waits for a call gets its outcome before the door is closed; a start that failed has nothing to wait for.
      await running.stop(signal.aborted ? settings.graceMs : 0)
      for (const close of closing.reverse()) await close()
    }
  } finally {
    await brokers?.close()
    await database.close()
    unhear()
  }
}

/** An embedded database belongs to one process, so that one has to take calls and work on them. */
function refuseLonely({ databaseUrl, roles }: ServiceSettings): void {
  const missing = (['api', 'worker'] as const).find((role) => !roles.includes(role))
  if (databaseUrl !== undefined || missing === undefined) return
  const message = `Without a databaseUrl one process does everything, but the role ${missing} is missing; set DATABASE_URL to divide the roles.`
  const issues = [{ path: '/service/roles', message: `lacks ${missing}` }]
  throw new ToolError('CONFIG_INVALID', message, { details: { issues } })
}

interface Doors {
  readonly url: string
  /** Commands look elsewhere from now on. */
  readonly leave: () => Promise<void>
  readonly close: () => Promise<void>
}

/** The HTTP door, for those who have the key; undefined in a process that only works. */
async function openDoors(
  { service: settings, file, options }: LoadedConfig,
  service: Parameters<typeof createHttpServer>[0]['service'],
  log: Parameters<typeof createHttpServer>[0]['log'],
): Promise<Doors | undefined> {
  if (!settings.roles.includes('api')) return undefined
  const { key } = await ensureApiKey(join(settings.data, 'key'))
  const http = await createHttpServer({
    ...{ service, log },
    ...{ host: settings.host, port: settings.port, hosts: settings.hosts, origins: settings.origins },
    authenticate: apiKeyAuthenticator(key, options.identity ?? owner),
    limits: { bodyBytes: settings.bodyBytes },
  })
  const address = { url: http.url, pid: process.pid, config: file ?? null }
  await writeAddress(settings.data, address)
  const leave = (): Promise<void> => removeAddress(settings.data, address)
  const close = async (): Promise<void> => {
    await leave()
    await http.close({ graceMs: 1_000 })
  }
  return { url: http.url, leave, close }
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), { once: true })
  })
}
