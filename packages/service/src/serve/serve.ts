import { join } from 'node:path'
import { contractVersion, ToolError } from '@gantry/contract'
import type { ToolsFolder } from '@gantry/tools'
import { sessionTag } from '../admission/session-placement.ts'
import { type Brokers, openBrokers } from '../brokers/open-brokers.ts'
import { refuseUnfit } from '../config/check-config.ts'
import type { LoadedConfig } from '../config/config.ts'
import { ensureApiKey } from '../config/key-file.ts'
import { isSame, liveSettings } from '../config/live-settings.ts'
import { removeAddress, writeAddress } from '../config/service-address.ts'
import type { ServiceSettings } from '../config/service-settings.ts'
import { watchConfig } from '../config/watch-config.ts'
import { type Authentication, openAuthentication } from '../http/authentication/open-authentication.ts'
import { httpLimits } from '../http/limits.ts'
import { serveMetrics } from '../http/metrics-server.ts'
import { createHttpServer } from '../http/server.ts'
import { createMcpHttpHandler } from '../mcp/http-handler.ts'
import { serviceHost } from '../mcp/service-host.ts'
import { createBus } from '../observe/bus.ts'
import { createLog, logEvents } from '../observe/logs.ts'
import { type Tracing, tracingOf } from '../observe/tracing.ts'
import { callbackKeys } from '../reply/callback.ts'
import { auditKeys } from '../storage/audit/audit-log.ts'
import { connectStorage } from '../storage/connect-storage.ts'
import { sharedSandboxes } from '../worker/shared-sandboxes.ts'
import { createSnapshot } from './create-snapshot.ts'
import { owner, startService, workerName } from './start.ts'

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

/** How long a service that stops waits for the collector to take the last traces. */
const tracesMs = 3_000

/** Runs the service until its signal aborts, and resolves when everything is closed. */
export async function serve({ load, say, log: stream, ready, signal }: ServeOptions): Promise<void> {
  const loaded = await load()
  const live = liveSettings(loaded.service)
  const { settings } = live
  refuseLonely(settings)
  const log = createLog(settings.logLevel, stream)
  const bus = createBus()
  const unhear = logEvents(bus, log)
  const { database, files } = await connectStorage(settings, say, loaded.options.secrets)
  let unused: LoadedConfig | undefined = loaded
  let latest = loaded
  const name = workerName()
  const identity = loaded.options.identity ?? owner
  const sandboxes = sharedSandboxes(sessionTag(name))
  let brokers: Brokers | undefined
  let tracing: Tracing | undefined
  try {
    brokers = await openBrokers({
      settings: settings.brokers,
      name,
      identity,
      secrets: loaded.options.secrets,
      say,
      takes: settings.roles.includes('worker'),
    })
    tracing = await tracingOf(settings.tracing, { secrets: loaded.options.secrets, worker: name, bus })
    const running = await startService({
      settings,
      database,
      files,
      bus,
      brokers,
      name,
      identity,
      ...(tracing === undefined ? {} : { tracer: tracing.tracer }),
      latest: () => latest.service.brokers,
      async snapshot(additions) {
        const next = unused ?? (await load())
        unused = undefined
        refuseAnother(loaded.file, next.file)
        const runtimes = await sandboxes.of(next.options.runtimes)
        const snapshot = createSnapshot({ ...next, options: { ...next.options, runtimes } }, additions, bus)
        await refuseUnfit(next, snapshot.executor, signal).catch(async (error: unknown) => {
          await snapshot.executor.close()
          throw error
        })
        // Only now is it certain that it can be used, and from here on all of it is.
        latest = next
        const owned = isSame(next.options.identity, loaded.options.identity) ? [] : ['identity']
        const keys = [...live.follow(next.service), ...owned]
        log.level = next.service.logLevel
        if (next.toolsFolder !== undefined) log.info(folderFacts(next.toolsFolder), 'tools of the folder')
        if (keys.length > 0) bus.emit('config:fixed', { keys })
        return snapshot
      },
      callbackKey: await callbackKeys(() => latest),
      auditKeys: await auditKeys(settings, loaded),
    })
    const closing: (() => void | Promise<void>)[] = []
    try {
      closing.push(watchConfig(loaded.file, () => latest.toolsFolder?.path, running.reload))
      const authentication = (key: string): Promise<Authentication> =>
        openAuthentication({
          database,
          bus,
          key,
          owner: identity,
          settings: () => latest.service.authentication,
        })
      const doors = await openDoors({ ...loaded, service: settings }, running.service, log, authentication)
      if (doors !== undefined) closing.push(doors.close)
      const { metricsHost: host, metricsPort: port, hosts } = settings
      if (port !== undefined) closing.push(await serveMetrics({ host, port, hosts }, running.service))
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
    if (sandboxes.sessions > 0)
      log.warn({ sessions: sandboxes.sessions }, 'sessions of code:session end with this process')
    await sandboxes.close()
    await tracing?.close(tracesMs)
    await brokers?.close()
    await database.close()
    unhear()
  }
}

/** What there is of a folder of tools; why something is not there is told with the warnings. */
function folderFacts({ path, tools, loaded, refused }: ToolsFolder): object {
  return { folder: path, tools: tools.length, files: loaded.length, refused: refused.map(({ file }) => file) }
}

/** A file that went away, for good or while it is being replaced, must not take the policy with it. */
function refuseAnother(file: string | undefined, next: string | undefined): void {
  if (file === undefined || file === next) return
  const instead = next === undefined ? '' : `, and ${next} was found in its place`
  throw new ToolError(
    'CONFIG_INVALID',
    `The configuration ${file} is not there any more${instead}; put it back, or start the service anew without it.`,
  )
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
  { service: settings, file }: LoadedConfig,
  service: Parameters<typeof createHttpServer>[0]['service'],
  log: Parameters<typeof createHttpServer>[0]['log'],
  authentication: (key: string) => Promise<Authentication>,
): Promise<Doors | undefined> {
  if (!settings.roles.includes('api')) return undefined
  const { key } = await ensureApiKey(join(settings.data, 'key'))
  const { authenticate, close: forget } = await authentication(key)
  const leaving = new AbortController()
  const mcp = await createMcpHttpHandler({
    ...{ host: serviceHost(service, leaving.signal), version: contractVersion, ...settings.mcp },
    resource: { ...settings.mcp, issuers: () => settings.authentication.jwt.map(({ issuer }) => issuer) },
  })
  const http = await createHttpServer({
    service,
    log,
    authenticate,
    mounts: mcp.mounts,
    host: settings.host,
    port: settings.port,
    hosts: settings.hosts,
    origins: settings.origins,
    ...(settings.tls === undefined ? {} : { tls: settings.tls }),
    limits: httpLimits(settings),
  }).catch(async (error: unknown) => {
    await forget()
    throw error
  })
  const address = { url: http.url, pid: process.pid, config: file ?? null }
  await writeAddress(settings.data, address)
  const leave = (): Promise<void> => removeAddress(settings.data, address)
  const close = async (): Promise<void> => {
    await leave()
    leaving.abort()
    await mcp.close()
    await http.close({ graceMs: 1_000 })
    await forget()
  }
  return { url: http.url, leave, close }
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), { once: true })
  })
}
