import { join } from 'node:path'
import { contractVersion } from '@gantry/contract'
import { onAbort } from '@gantry/core/internal/resilience/abort'
import type { Logger } from 'pino'
import { sessionTag } from '../admission/admit.ts'
import { type Brokers, openBrokers } from '../brokers/open-brokers.ts'
import type { LoadedConfig } from '../config/config.ts'
import { type LiveConfiguration, liveConfiguration } from '../config/live-settings.ts'
import { watchConfig } from '../config/reload.ts'
import { ensureApiKey, removeAddress, writeAddress } from '../config/service-files.ts'
import { owner, refuseMissingRole, type ServiceSettings, workerName } from '../config/service-settings.ts'
import { type Authentication, openAuthentication } from '../http/authentication/open-authentication.ts'
import { httpLimits } from '../http/limits.ts'
import { serveMetrics } from '../http/metrics-server.ts'
import { createHttpServer } from '../http/server.ts'
import type { Service } from '../http/service.ts'
import { createMcpHttpHandler, serviceHost } from '../mcp/http-handler.ts'
import { createBus } from '../observe/bus.ts'
import { keepLog, logFileIn } from '../observe/log-file.ts'
import { createLog, createLogBuffer, logConfiguration, logEvents } from '../observe/logs.ts'
import { type Tracing, tracingOf } from '../observe/tracing.ts'
import { approvalKey } from '../reply/approval-webhook.ts'
import { callbackKeys } from '../reply/callback.ts'
import { auditKeys } from '../storage/audit/audit-log.ts'
import { connectStorage } from '../storage/connect-storage.ts'
import { sharedSandboxes } from '../worker/shared-sandboxes.ts'
import { sharedKeys } from './compare-servers.ts'
import { type RunningService, startService } from './start.ts'

export interface ServeOptions {
  /** Reads the configuration, each time anew. */
  readonly load: () => Promise<LoadedConfig>
  /** Prints a line for the person at the terminal. */
  readonly say: (line: string) => void
  /** Receives the log, one line of JSON for each entry. */
  readonly log: { write(line: string): void }
  /** Called once the service admits calls. */
  readonly ready: (url: string | undefined) => void
  /** Aborts when the service is to stop. */
  readonly signal: AbortSignal
}

/** The time that a stopping service waits for the collector to accept the last traces. */
const tracesMs = 3_000

/** Runs the service until its signal aborts, and resolves when everything is closed. */
export async function serve({ load, say, log: stream, ready, signal }: ServeOptions): Promise<void> {
  const loaded = await load()
  const { secrets, identity = owner } = loaded.options
  refuseMissingRole(loaded.service)
  const kept = loaded.service.logFile ? createLogBuffer() : undefined
  const closeLog = kept && keepLog(logFileIn(loaded.service.data), kept)
  const log = createLog(loaded.service.logLevel, stream, kept)
  const bus = createBus()
  const unsubscribe = logEvents(bus, log)
  const name = workerName()
  const sandboxes = sharedSandboxes(sessionTag(name))
  const live = liveConfiguration(loaded, {
    load,
    runtimes: (options) => sandboxes.of(options.runtimes, options.secrets),
    events: bus,
    used(config, keys) {
      logConfiguration(log, config)
      if (keys.length > 0) bus.emit('config:fixed', { keys })
    },
    signal,
  })
  const { settings } = live
  const { database, files } = await connectStorage(settings, say, secrets).catch(async (error: unknown) => {
    await closeLog?.()
    throw error
  })
  if (!database.exclusive && settings.brokers.s3 === undefined) {
    const folder = join(settings.data, 'artifacts')
    const advice = 'configure s3, or share this folder; until then, servers on other machines do not find its files'
    log.warn({ folder }, `artifacts are in a folder, although the database can be shared: ${advice}`)
  }
  let brokers: Brokers | undefined
  let tracing: Tracing | undefined
  try {
    const takes = settings.roles.includes('worker')
    brokers = await openBrokers({ settings: settings.brokers, name, identity, secrets, say, takes })
    tracing = await tracingOf(settings.tracing, { secrets, worker: name, bus })
    const callbackKey = await callbackKeys(() => live.latest)
    const approving = approvalKey(() => live.latest, callbackKey)
    const running = await startService({
      settings,
      database,
      files,
      bus,
      brokers,
      name,
      identity,
      ...(tracing === undefined ? {} : { tracer: tracing.tracer }),
      latest: () => live.latest.service.brokers,
      snapshot: live.snapshot,
      callbackKey,
      approvalKey: approving,
      sharedTexts: sharedKeys({ latest: () => live.latest, callbackKey, approvalKey: approving }),
      auditKeys: await auditKeys(settings, loaded),
    })
    const authentication = (key: string): Promise<Authentication> =>
      openAuthentication({ database, bus, key, owner: identity, health: running.health, settings })
    await answerRequests(running, { live, file: loaded.file, log, authentication, ready, signal })
  } finally {
    const { sessions } = sandboxes
    if (sessions > 0) log.warn({ sessions }, 'sessions of code:session end with this process')
    await sandboxes.close()
    await tracing?.close(tracesMs)
    await brokers?.close()
    await database.close()
    unsubscribe()
    await closeLog?.()
  }
}

interface RequestContext extends Pick<ServeOptions, 'ready' | 'signal'> {
  readonly live: LiveConfiguration
  readonly file: string | undefined
  readonly log: Logger
  readonly authentication: (key: string) => Promise<Authentication>
}

/** Answers requests until the signal aborts, and then stops the service. */
async function answerRequests(
  running: RunningService,
  { live, file, log, authentication, ready, signal }: RequestContext,
): Promise<void> {
  const { settings } = live
  const closing: (() => void | Promise<void>)[] = []
  try {
    closing.push(watchConfig(file, () => live.latest.toolsFolder?.path, running.reload))
    const api = await openApi({ settings, file, service: running.service, log, authentication })
    if (api !== undefined) closing.push(api.close)
    const { metricsHost: host, metricsPort: port, hosts } = settings
    if (port !== undefined) closing.push(await serveMetrics({ host, port, hosts }, running.service))
    await running.consuming(signal)
    if (!signal.aborted) ready(api?.url)
    await aborted(signal)
    log.info({ graceMs: settings.graceMs }, 'stopping: no more calls are admitted')
    await api?.leave()
  } finally {
    // Waiters get their outcomes before the API closes; a start that failed has none.
    await running.stop(signal.aborted ? settings.graceMs : 0)
    for (const close of closing.reverse()) await close()
  }
}

interface Api {
  readonly url: string
  /** Removes the address file, so that commands no longer find this service. */
  readonly leave: () => Promise<void>
  readonly close: () => Promise<void>
}

interface ApiParts {
  readonly settings: ServiceSettings
  readonly file: string | undefined
  readonly service: Service
  readonly log: Logger
  readonly authentication: (key: string) => Promise<Authentication>
}

/** The HTTP API with the MCP handler; undefined in a process without the role `api`. */
async function openApi({ settings, file, service, log, authentication }: ApiParts): Promise<Api | undefined> {
  if (!settings.roles.includes('api')) return undefined
  const { key } = await ensureApiKey(join(settings.data, 'key'))
  const { authenticate, close: forget } = await authentication(key)
  const leaving = new AbortController()
  const mcp = await createMcpHttpHandler({
    host: serviceHost(service, leaving.signal),
    version: contractVersion,
    ...settings.mcp,
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
  return new Promise((resolve) => void onAbort(signal, resolve))
}
