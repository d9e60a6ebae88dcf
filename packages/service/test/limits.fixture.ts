import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import type { Identity, JsonObject } from '@gantry/contract'
import { type DefinedTool, defineTool } from '@gantry/core'
import { openBrokers } from '../src/brokers/open-brokers.ts'
import type { redisForFile } from '../src/brokers/transports/redis/redis.fixture.ts'
import { liveSettings } from '../src/config/live-settings.ts'
import { owner, serviceSettings, workerName } from '../src/config/service-settings.ts'
import { createSnapshot } from '../src/config/snapshots.ts'
import type { TenantsSettings } from '../src/config/tenant-limits.ts'
import type { Service } from '../src/http/service.ts'
import { createBus } from '../src/observe/bus.ts'
import { startService } from '../src/serve/start.ts'
import { folderArtifacts } from '../src/storage/artifacts/folder.ts'
import type { Database } from '../src/storage/databases/database.ts'
import { pgliteDatabase, postgresDatabase } from './databases.fixture.ts'
import { loadedConfig } from './service-site.fixture.ts'

/** A rate with these tokens at the start, so slow that no token is added during a test. */
export function slowRate(burst: number) {
  return { rate: { perSecond: 0.000_01, burst } }
}

/** A budget that is not renewed during a test. */
export function slowBudget(budget: number) {
  return { cost: { budget, everyMs: 1_000_000_000 } }
}

/** How many calls of each tenant and principal ran at a time, recorded independently of the code under test. */
export interface Ledger {
  readonly tools: readonly DefinedTool[]
  readonly most: ReadonlyMap<string, number>
  /** The tenant and principal of each call, in the order in which the calls began. */
  readonly began: readonly string[]
  /** Lets calls of `t:gated` end. */
  open(): void
}

const anything = { type: 'object' } as const

/** `t:work` takes some turns of the event loop, `t:gated` waits for `open`, `t:dear` costs five units. */
export function createLedger(): Ledger {
  const running = new Map<string, number>()
  const most = new Map<string, number>()
  const began: string[] = []
  const gate = Promise.withResolvers<void>()
  const change = ({ tenant, principal }: Identity, by: number): void => {
    for (const who of [tenant, `${tenant} ${principal}`]) {
      const now = (running.get(who) ?? 0) + by
      running.set(who, now)
      most.set(who, Math.max(now, most.get(who) ?? 0))
    }
  }
  const tool = (name: string, work: () => Promise<void>, given: object = {}): DefinedTool =>
    defineTool({
      namespace: 't',
      name,
      version: '1.0.0',
      description: 'A tool.',
      inputSchema: anything,
      effect: 'read',
      ...given,
      async run(_args, { identity }) {
        began.push(`${identity.tenant} ${identity.principal}`)
        change(identity, 1)
        try {
          await work()
        } finally {
          change(identity, -1)
        }
        return {}
      },
    })
  const turns = async (): Promise<void> => {
    for (let n = 0; n < 5; n++) await new Promise((resolve) => setImmediate(resolve))
  }
  return {
    tools: [tool('work', turns), tool('gated', () => gate.promise), tool('dear', turns, { cost: 5 })],
    most,
    began,
    open: gate.resolve,
  }
}

export interface LimitedSite {
  readonly service: Service
  /** Replaces the limits, as a reload does. */
  limit(tenants: TenantsSettings): Promise<void>
  stop(): Promise<void>
}

/** One process of the service, wired as in `gantry serve`. */
export async function openLimitedSite(
  t: TestContext,
  options: {
    readonly database: Database
    readonly tenants: TenantsSettings
    readonly tools: readonly DefinedTool[]
    readonly redisUrl?: string
    readonly service?: JsonObject
  },
): Promise<LimitedSite> {
  const data = mkdtempSync(join(tmpdir(), 'gantry-limits-'))
  t.after(() => rmSync(data, { recursive: true, force: true }))
  const settingsFor = (tenants: TenantsSettings) =>
    serviceSettings(
      {
        ...(options.redisUrl === undefined ? {} : { redisUrl: options.redisUrl }),
        service: { logLevel: 'silent', ...options.service },
        tenants,
      },
      data,
    )
  const live = liveSettings(settingsFor(options.tenants))
  const { settings } = live
  const bus = createBus()
  const name = workerName()
  const loaded = loadedConfig(settings, { tools: options.tools })
  const brokers = await openBrokers({
    settings: settings.brokers,
    takes: true,
    name,
    identity: owner,
    secrets: undefined,
    say: () => undefined,
  })
  const running = await startService({
    settings,
    database: options.database,
    bus,
    brokers,
    name,
    identity: owner,
    files: folderArtifacts({ folder: join(data, 'artifacts') }),
    snapshot: async (additions) => createSnapshot(loaded, additions, bus),
    callbackKey: async () => undefined,
  })
  let stopped: Promise<void> | undefined
  const stop = (): Promise<void> => {
    stopped ??= running.stop(5_000).then(brokers.close)
    return stopped
  }
  t.after(stop)
  return {
    service: running.service,
    async limit(tenants) {
      live.follow(settingsFor(tenants))
      await running.reload()
    },
    stop,
  }
}

/** The databases, with and without Redis, that the limits are tested on. */
export function limitEngines(redis: ReturnType<typeof redisForFile>): {
  readonly [name: string]: (t: TestContext) => Promise<{ database: Database; redisUrl?: string }>
} {
  return {
    PGlite: async (t) => ({ database: (await pgliteDatabase(t)).asService() }),
    PostgreSQL: async (t) => ({ database: (await postgresDatabase(t)).database.asService() }),
    'PostgreSQL with Redis': async (t) => ({
      database: (await postgresDatabase(t)).database.asService(),
      redisUrl: (await redis.server(t)).url,
    }),
  }
}
