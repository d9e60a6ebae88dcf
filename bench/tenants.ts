import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { type DefinedTool, defineTool } from '../packages/core/src/index.ts'
import type { LoadedConfig } from '../packages/service/src/config/config.ts'
import { defaultSettings, type ServiceSettings } from '../packages/service/src/config/service-settings.ts'
import { createSnapshot } from '../packages/service/src/config/snapshots.ts'
import { createBus } from '../packages/service/src/observe/bus.ts'
import { startService } from '../packages/service/src/serve/start.ts'
import { connectStorage } from '../packages/service/src/storage/connect-storage.ts'
import type { Database } from '../packages/service/src/storage/databases/database.ts'
import { startPostgres } from '../scripts/engines/postgres.ts'
import { quantile } from './measure.ts'
import { progress } from './progress.ts'
import { callAtRate } from './rate.ts'
import { figure, ratio, type Section } from './report.ts'

const slots = 64
const backlog = 10_000
const turns = 5
const rate = { perSecond: 50, seconds: 2 }
const quiet = { principal: 'quiet', tenant: 'quiet', permissions: ['*'] }
const noisy = JSON.stringify({ principal: 'noisy', tenant: 'noisy', permissions: ['*'] })
const never = new AbortController().signal

/** A tenant with a few calls, alone and next to one with ten thousand waiting calls. */
export async function tenants(): Promise<Section> {
  const rows: string[][] = []
  for (const ms of [20, 50, 100]) {
    const { alone, beside, done } = await measure(ms)
    for (const [name, share] of [
      ['median', 0.5],
      ['p99', 0.99],
    ] as const) {
      const [one, other] = [quantile(alone, share), quantile(beside, share)]
      const goal = name === 'p99' ? '< 2×' : ''
      rows.push([`${ms} ms, ${name}`, figure(one), figure(other), ratio(other, one), goal, figure(done)])
    }
  }
  const head = ['a tool that waits', 'alone, ms', 'beside 10,000, ms', 'ratio', 'goal', 'of the other, per s']
  return { title: 'Two tenants', tables: [{ head, rows }], notes }
}

const notes = [
  `One process with API and worker, ${slots} slots, on PostgreSQL, nothing configured. ${rate.perSecond} calls a second of one tenant, each from its time until its outcome; by turns of ${rate.seconds} seconds alone, and with at least ${figure(backlog)} calls of another tenant waiting all the time. The last column is what of those was done meanwhile.`,
]

async function measure(ms: number) {
  const postgres = await startPostgres()
  const data = mkdtempSync(join(tmpdir(), 'gantry-bench-'))
  const settings: ServiceSettings = {
    ...defaultSettings,
    databaseUrl: postgres.url,
    data,
    slots,
    logLevel: 'silent',
  }
  const loaded: LoadedConfig = {
    file: undefined,
    options: { tools: [waits(ms)] },
    service: settings,
    builtins: false,
    demo: false,
    warnings: [],
  }
  const { database, files } = await connectStorage(settings, () => {})
  const bus = createBus()
  let others = 0
  bus.on('call:finished', ({ tenant }) => {
    if (tenant === 'noisy') others += 1
  })
  const { service, stop } = await startService({
    settings,
    bus,
    database,
    files,
    callbackKey: async () => undefined,
    snapshot: async (additions) => createSnapshot(loaded, additions, bus),
  })
  const call = async (): Promise<void> => {
    const { callId } = await service.submit({ kind: 'call', tool: 'bench:wait', args: {} }, quiet)
    await service.wait(callId, quiet, 30_000, never)
  }
  const alone: number[] = []
  const beside: number[] = []
  try {
    await callAtRate(call, rate)
    for (let turn = 0; turn < turns; turn += 1) {
      progress(`tenants: ${ms} ms, turn ${turn + 1} of ${turns}`)
      alone.push(...(await callAtRate(call, rate)))
      // Add the number of calls that can be completed meanwhile to those that must keep waiting.
      await queueMany(database, turn, backlog + Math.ceil((slots * 1_000 * (rate.seconds + 1)) / ms))
      await pause(300)
      const before = others
      const since = performance.now()
      beside.push(...(await callAtRate(call, rate)))
      others = before + (others - before) * ((rate.seconds * 1_000) / (performance.now() - since))
      await clear(database)
    }
  } finally {
    await stop(5_000)
    await database.close()
    await postgres.stop()
    rmSync(data, { recursive: true, force: true })
  }
  return { alone, beside, done: others / (turns * (rate.seconds + 0.3)) }
}

function waits(ms: number): DefinedTool {
  return defineTool({
    namespace: 'bench',
    name: 'wait',
    version: '1.0.0',
    description: 'Waits.',
    effect: 'read',
    inputSchema: { type: 'object' },
    async run() {
      await pause(ms)
      return {}
    },
  })
}

async function queueMany(database: Database, turn: number, calls: number): Promise<void> {
  await database.transaction(async (queries) => {
    await queries.query(
      `insert into calls (call_id, kind, tenant, principal, identity, fingerprint, tool, effect, payload, payload_bytes)
       select 'n' || $1::int || '-' || i, 'call', 'noisy', 'noisy', $3, 'f', 'bench:wait:1.0.0', 'read', '{}', 2
       from generate_series(1, $2::int) i`,
      [turn, calls, noisy],
    )
    await queries.query(
      `insert into queue (call_id, tenant, principal) select 'n' || $1::int || '-' || i, 'noisy', 'noisy'
       from generate_series(1, $2::int) i`,
      [turn, calls],
    )
    await queries.query(`select pg_notify('gantry_ready', '')`)
  })
}

/** Removes waiting calls and waits for running ones. */
async function clear(database: Database): Promise<void> {
  await database.query(`delete from queue where tenant = 'noisy' and lease_until is null`)
  for (;;) {
    const [row] = await database.query<{ n: number }>(`select count(*)::int as n from queue where tenant = 'noisy'`)
    if (row?.n === 0) return
    await pause(50)
  }
}
