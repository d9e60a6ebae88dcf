import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { createBus } from '../observe/bus.ts'
import { createMetrics } from '../observe/metrics.ts'
import { createLifecycle, createReadiness } from '../observe/readiness.ts'
import { liveSettings } from './live-settings.ts'
import { createReload } from './reload.ts'
import { type ServiceSettings, serviceSettings } from './service-settings.ts'

const settingsOf = (document: Parameters<typeof serviceSettings>[0] = {}): ServiceSettings =>
  serviceSettings(document, '/tmp/data')

test('reloads take effect in the order of their requests, however long each takes', async () => {
  const used: number[] = []
  const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  let next = 0
  const reload = createReload(async () => {
    const mine = next++
    await gates[mine]?.promise
    used.push(mine)
  }, createBus())
  const both = [reload(), reload()]
  gates[1]?.resolve()
  gates[0]?.resolve()
  await Promise.all(both)
  assert.deepEqual(used, [0, 1])
})

test('an invalid configuration is reported with its issues and rejects, and the next one is read', async (t) => {
  const bus = createBus()
  const metrics = createMetrics(bus, {
    depth: async () => 0,
    running: () => 0,
    spooled: () => 0,
    unrecorded: () => 0,
    isUp: () => true,
    connections: () => ({}),
    mismatches: () => ({}),
    sandboxes: () => ({}),
    waiting: async () => ({}),
    stored: async () => ({}),
  })
  t.after(metrics.close)
  const lifecycle = createLifecycle(bus)
  const health = { current: () => [] }
  const check = createReadiness({ bus, lifecycle, health, recorder: { spooled: 0 }, worker: undefined })
  lifecycle.change('ready')
  const reported: unknown[] = []
  bus.on('config:refused', (event) => reported.push(event))
  bus.on('config:read', () => reported.push('read'))
  const issues = [{ path: '/limit', message: 'is not a key' }]
  const outcomes = [new ToolError('CONFIG_INVALID', 'It has a problem.', { details: { issues } }), undefined]
  const reload = createReload(async () => {
    const fault = outcomes.shift()
    if (fault !== undefined) throw fault
  }, bus)
  const okay = async (): Promise<boolean> => /^gantry_config_ok 1$/m.test((await metrics.read()).text)
  assert.deepEqual([await okay(), (await check()).notes], [true, []])
  await assert.rejects(reload(), { code: 'CONFIG_INVALID' })
  assert.deepEqual(reported, [{ reason: 'It has a problem.', issues }])
  const state = await check()
  assert.deepEqual([await okay(), state.ready, state.notes?.length], [false, true, 1])
  await reload()
  assert.equal(reported[1], 'read')
  assert.deepEqual([await okay(), (await check()).notes], [true, []])
})

test('changed limits take effect, and settings that need a restart are named without their values', () => {
  const live = liveSettings(
    settingsOf({ databaseUrl: 'postgres://u:old-password@h/d', service: { maxQueued: 5, port: 1 } }),
  )
  const { settings } = live
  const next = {
    databaseUrl: 'postgres://u:new-password@h/d',
    service: {
      maxQueued: 7,
      port: 2,
      labels: { gpu: 'yes' },
      logLevel: 'debug' as const,
      callbacks: { acme: 'https://a.example' },
      callbackOrigins: ['https://a.example'],
      waitingPerPrincipal: 3,
    },
  }
  assert.deepEqual(live.follow(settingsOf(next)), ['service.port', 'service.labels', 'databaseUrl'])
  assert.deepEqual(
    [settings.maxQueued, settings.logLevel, settings.callbacks.acme, settings.callbackOrigins, settings.port],
    [7, 'debug', 'https://a.example', ['https://a.example'], 1],
  )
  assert.equal(settings.waitingPerPrincipal, 3)
  assert.deepEqual(
    live.follow(settingsOf({ ...next, databaseUrl: 'postgres://u:old-password@h/d', service: { port: 1 } })),
    [],
  )
  assert.equal(settings.maxQueued, settingsOf().maxQueued)
})

test('changed session permissions of a broker take effect, and changed connection settings are named', () => {
  const redis = { transport: 'redis' as const, redisUrl: 'redis://one' }
  const live = liveSettings(settingsOf(redis))
  assert.deepEqual(
    live.follow(settingsOf({ ...redis, redis: { users: { 'a:1': ['admin'] }, tenants: { 'a:g': 'x' } } })),
    [],
  )
  assert.deepEqual(live.follow(settingsOf({ ...redis, redisUrl: 'redis://two', transport: 'postgres' })), [
    'transport',
    'redis',
  ])
})
