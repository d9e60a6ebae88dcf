import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import type { ChainResult, ChainStep, Identity, Json, JsonObject, Result } from '@gantry/contract'
import type { LoadedConfig } from '../src/config/config.ts'
import { type ApprovalSettings, type ServiceSettings, serviceSettings } from '../src/config/service-settings.ts'
import { createSnapshot } from '../src/config/snapshots.ts'
import { unauthenticated } from '../src/http/authentication/authenticator.ts'
import { createHttpServer, type HttpServer } from '../src/http/server.ts'
import type { Service } from '../src/http/service.ts'
import { createBus } from '../src/observe/bus.ts'
import { createLog, logEvents } from '../src/observe/logs.ts'
import { testKey } from '../src/reply/callback.fixture.ts'
import { startService } from '../src/serve/start.ts'
import { folderArtifacts } from '../src/storage/artifacts/folder.ts'
import type { Database } from '../src/storage/databases/database.ts'
import type { SharedTexts } from '../src/storage/server-comparison.ts'
import { sampleTool } from './sample-tool.fixture.ts'

/** A whole service in this process, without HTTP and brokers, whose configuration can be replaced. */
export interface ServiceSite {
  readonly service: Service
  readonly database: Database
  /** The folder of its files, with the spool. */
  readonly data: string
  /** Stops it before the test ends. */
  stop(graceMs: number): Promise<void>
  /** Runs a call to its end; its id, and its outcome as it was recorded. */
  call(tool: string, args: Json, as?: Identity): Promise<Ended<Result>>
  chain(steps: readonly ChainStep[], input?: Json, as?: Identity): Promise<Ended<ChainResult>>
  /** Replaces the configuration, as a reload does. */
  configure(options: LoadedConfig['options']): Promise<void>
}

export interface Ended<Outcome> {
  readonly callId: string
  readonly outcome: Outcome
}

export const operator: Identity = { principal: 'operator', tenant: 'acme', permissions: ['*'] }
const never = new AbortController().signal

/** The tool `test:echo`, which returns at once. */
export const echo = sampleTool({
  name: 'echo',
  description: 'Says nothing.',
  run: async () => ({}),
})

/** A configuration without a file. */
export function loadedConfig(service: ServiceSettings, options: LoadedConfig['options']): LoadedConfig {
  return { file: undefined, service, builtins: false, demo: false, warnings: [], options }
}

/** An HTTP server for callers that send their name in `authorization`; the test closes it. */
export function servePeople(service: Service, people: { readonly [name: string]: Identity }): Promise<HttpServer> {
  return createHttpServer({
    service,
    log: { debug: () => undefined, info: () => undefined, error: () => undefined },
    async authenticate({ headers }) {
      const identity = people[String(headers.authorization)]
      if (identity === undefined) throw unauthenticated()
      return { identity }
    },
  })
}

interface SiteOptions {
  readonly approvals?: ApprovalSettings
  /** What must be equal in all processes, apart from tools, audit keys and the place of artifacts. */
  readonly sharedTexts?: () => Promise<SharedTexts>
}

export async function openServiceSite(
  t: TestContext,
  open: (t: TestContext) => Promise<Database>,
  first: LoadedConfig['options'],
  service: JsonObject = {},
  log: (line: string) => void = () => undefined,
  { approvals = {}, sharedTexts }: SiteOptions = {},
): Promise<ServiceSite> {
  // Hooks run in the order of registration: the service stops before its database closes.
  const ending: (() => Promise<void>)[] = []
  t.after(() => Promise.all(ending.map((end) => end())))
  const database = await open(t)
  const data = mkdtempSync(join(tmpdir(), 'gantry-site-'))
  t.after(() => rmSync(data, { recursive: true, force: true }))
  const settings = serviceSettings({ service, approvals }, data)
  const bus = createBus()
  const unsubscribe = logEvents(bus, createLog('debug', { write: log }))
  t.after(unsubscribe)
  let options = first
  const running = await startService({
    settings,
    bus,
    database: database.asService(),
    files: folderArtifacts({ folder: join(data, 'artifacts') }),
    snapshot: async (additions) => createSnapshot(loadedConfig(settings, options), additions, bus),
    callbackKey: async () => testKey,
    ...(sharedTexts === undefined ? {} : { sharedTexts }),
  })
  let stopped: Promise<void> | undefined
  const stop = (graceMs: number): Promise<void> => {
    stopped ??= running.stop(graceMs)
    return stopped
  }
  ending.push(() => stop(5_000))
  const ended = async <Outcome>(input: Parameters<Service['submit']>[0], as: Identity): Promise<Ended<Outcome>> => {
    const { callId } = await running.service.submit(input, as)
    await running.service.wait(callId, as, 20_000, never)
    const { result } = await running.service.call(callId, as)
    return { callId, outcome: result as Outcome }
  }
  return {
    service: running.service,
    database,
    data,
    stop,
    call: (tool, args, as = operator) => ended({ kind: 'call', tool, args }, as),
    chain: (steps, input, as = operator) =>
      ended({ kind: 'chain', args: { steps, ...(input === undefined ? {} : { input }) } }, as),
    async configure(next) {
      options = next
      await running.reload()
    },
  }
}
