import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { ToolError } from '@gantry/contract'
import type { Backend, BreakerEvent } from '@gantry/core'
import type { LoadedConfig } from '../src/config/config.ts'
import { defaultSettings, type ServiceSettings } from '../src/config/service-settings.ts'
import { createSnapshot } from '../src/config/snapshots.ts'
import { type Bus, createBus } from '../src/observe/bus.ts'
import { type RunningService, startService } from '../src/serve/start.ts'
import { connectStorage } from '../src/storage/connect-storage.ts'
import { postgresDatabase } from './databases.fixture.ts'
import { sampleTool } from './sample-tool.fixture.ts'

const identity = { principal: 'test', tenant: 'test', permissions: ['*'] }
/** The circuit stays open for 100 to 200 ms, then twice that, and so on; the test is too short for a reset. */
const openMs = 200
const breaker = { windowMs: 2_000, minCalls: 5, openMs, maxOpenMs: 60_000 }
const halfPeriodMs = 500
const waveMs = 4_000

/** Starts a service in all roles whose one tool uses this backend; it stops with the test. */
async function startOn(t: TestContext, databaseUrl: string, backend: Backend, bus: Bus): Promise<RunningService> {
  const data = mkdtempSync(join(tmpdir(), 'gantry-wave-'))
  t.after(() => rmSync(data, { recursive: true, force: true }))
  const settings: ServiceSettings = { ...defaultSettings, databaseUrl, data, slots: 16, logLevel: 'silent' }
  const tool = sampleTool({
    name: 'wave',
    description: 'Up and down.',
    onCircuitOpen: 'wait',
    backends: [{ kind: backend.kind, name: backend.name }],
  })
  const options = { backends: [backend], tools: [tool], safeguards: { breaker } }
  const loaded: LoadedConfig = {
    file: undefined,
    options,
    service: settings,
    builtins: false,
    demo: false,
    warnings: [],
  }
  const storage = await connectStorage(settings, () => {})
  t.after(() => storage.database.close())
  const running = await startService({
    settings,
    bus,
    database: storage.database,
    files: storage.files,
    snapshot: async (additions) => createSnapshot(loaded, additions, bus),
    callbackKey: async () => undefined,
  })
  t.after(() => running.stop(5_000))
  return running
}

/** The most trials that fit into a time: one after each open period of the shortest length. */
function mostTrials(ms: number): number {
  let [trials, restMs] = [0, openMs / 2]
  for (let left = ms; left >= restMs; restMs *= 2) {
    left -= restMs
    trials += 1
  }
  return trials
}

test('an open circuit lets one call of the whole fleet through at a time, after growing delays, while other calls wait', async (t) => {
  const { url, database } = await postgresDatabase(t)
  const wave = { begun: performance.now(), on: true }
  const isDown = (): boolean => wave.on && Math.floor((performance.now() - wave.begun) / halfPeriodMs) % 2 === 0
  const backend: Backend = {
    kind: 'remote',
    name: 'wave',
    async call() {
      await sleep(5)
      if (isDown()) throw new ToolError('BACKEND_UNAVAILABLE', 'The wave is down.')
      return 'up'
    },
  }
  const seen: { readonly bus: number; readonly event: BreakerEvent }[] = []
  const [ended, releases] = [new Map<string, number>(), new Map<string, number>()]
  const count = (counts: Map<string, number>, key: string): unknown => counts.set(key, (counts.get(key) ?? 0) + 1)
  const buses = [createBus(), createBus()]
  const trying = new Set<number>()
  let mostAtOnce = 0
  let dead = 0
  for (const [index, bus] of buses.entries()) {
    bus.on('circuit:changed', (event) => {
      seen.push({ bus: index, event })
      if (event.kind === 'trial') trying.add(index)
      else trying.delete(index)
      mostAtOnce = Math.max(mostAtOnce, trying.size)
    })
    bus.on('call:finished', ({ status, code }) => count(ended, code ?? status))
    bus.on('call:released', ({ reason }) => count(releases, reason))
    bus.on('call:dead', () => {
      dead += 1
    })
  }
  const services = await Promise.all(buses.map((bus) => startOn(t, url, backend, bus)))

  wave.begun = performance.now()
  let submitted = 0
  while (performance.now() - wave.begun < waveMs) {
    await Promise.all(
      services.map(({ service }) => service.submit({ kind: 'call', tool: 'test:wave', args: {} }, identity)),
    )
    submitted += services.length
    await sleep(20)
  }
  wave.on = false
  const total = (): number => [...ended.values()].reduce((sum, one) => sum + one, 0)
  const last = performance.now() + 60_000
  while (total() < submitted && performance.now() < last) await sleep(20)
  const tookMs = performance.now() - wave.begun

  const own = seen.filter(({ event }) => event.elsewhere !== true).map(({ event }) => event.kind)
  const [opened, trials] = ['opened', 'trial'].map((kind) => own.filter((one) => one === kind).length)
  const found = JSON.stringify({ submitted, tookMs, opened, trials, ended: [...ended], releases: [...releases] })
  t.diagnostic(found)
  assert.equal(total(), submitted, found)
  assert.equal(mostAtOnce, 1, found)
  assert.ok(Number(trials) >= 1 && Number(trials) <= mostTrials(tookMs), found)
  assert.ok(Number(opened) <= services.length * (Number(trials) + 1), found)
  assert.ok(Number(releases.get('CIRCUIT_OPEN')) > 0, found)
  assert.deepEqual([...ended.keys()].sort(), ['BACKEND_UNAVAILABLE', 'ok'], found)
  assert.equal(dead, 0)
  assert.deepEqual(await database.query('select id from dead_letters'), [])
  for (const { service } of services) assert.equal(service.circuits(identity)[0]?.state, 'closed', found)
})
