import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { test } from 'node:test'
import { hasProgram } from '../../../../scripts/engines/packages.ts'
import { createBus, type Subject, type WorkerEvent, type WorkerEvents } from './bus.ts'
import { createMetrics, type Gauges } from './metrics.ts'

const gauges: Gauges = {
  depth: async () => 3,
  running: () => 2,
  spooled: () => 1,
  unrecorded: () => 2,
  isUp: (name) => name !== 'database',
  lag: { redis: async () => 7 },
  connections: () => ({ open: 4, idle: 1, waiting: 0 }),
  sandboxes: () => ({ running: 1, waiting: 2 }),
  mismatches: () => ({ callback_key: 1 }),
  waiting: async () => ({ approvals: 5, unsealed: 9 }),
  stored: async () => ({ bytes: 70_000, files: 3 }),
}
const subject: Subject = { callId: 'c-1', tool: 'a:b:1.0.0', tenant: 'acme' }
const finished: WorkerEvents['call:finished'] = { ...subject, status: 'ok', outcome: 'ok', retries: 0, durationMs: 1 }

/** One event of each kind that the metrics count. */
const everything: { readonly [Name in WorkerEvent]?: WorkerEvents[Name] } = {
  'call:finished': { ...subject, status: 'ok', outcome: 'ok', retries: 2, durationMs: 12 },
  'call:refused': { tool: 'a:b', code: 'RATE_LIMITED', tenant: 'acme' },
  'call:released': { ...subject, reason: 'stopping' },
  'call:dead': { ...subject, reason: 'It died.' },
  'callback:tried': { callId: 'c-1', kind: 'callback', outcome: 'sent' },
  'lease:reclaimed': { calls: 2 },
  'lease:lost': { callId: 'c-1' },
  'fence:refused': { callId: 'c-1', fence: 1 },
  'stage:timed': { stage: 'execute', ms: 3 },
  'circuit:changed': { kind: 'opened', name: 'a "quoted" \\ name' } as WorkerEvents['circuit:changed'],
  'message:refused': { source: 's', code: 'PAYLOAD_INVALID', dead: true },
  'message:held': { transport: 'redis', id: '1', reason: 'full' },
  'message:gone': { source: 's', position: '1' },
  'spans:sent': { spans: 10 },
  'spans:lost': { spans: 4, reason: 'ECONNREFUSED' },
}

function counted(given: Partial<Gauges> = {}) {
  const bus = createBus()
  const metrics = createMetrics(bus, { ...gauges, ...given })
  for (const [name, event] of Object.entries(everything)) bus.emit(name as WorkerEvent, event as never)
  return { bus, metrics }
}

test('promtool check metrics reports no problem', (t) => {
  if (!hasProgram('promtool')) return t.skip('promtool is not installed; apt-get install prometheus')
  return checked()
})

async function checked(): Promise<void> {
  const { metrics } = counted({ tenants: ['acme'] })
  const { text } = await metrics.read()
  metrics.close()
  const good = spawnSync('promtool', ['check', 'metrics'], { input: text, encoding: 'utf8' })
  assert.deepEqual([good.status, good.stdout, good.stderr], [0, '', ''])
  const wrong = `${text}\n# TYPE gantry_wrong_total gauge\ngantry_wrong_total{a="\\x"} 1\n`
  assert.notEqual(
    spawnSync('promtool', ['check', 'metrics'], { input: wrong }).status,
    0,
    'promtool reports nothing for an invalid metric',
  )
}

test('gauges are read at each scrape', async () => {
  const { metrics } = counted()
  const { text } = await metrics.read()
  metrics.close()
  const lines = [
    'gantry_database_connections{state="open"} 4',
    'gantry_database_connections{state="waiting"} 0',
    'gantry_sandboxes{state="running"} 1',
    'gantry_sandboxes{state="waiting"} 2',
    'gantry_redis_lag 7',
    'gantry_stored{what="bytes"} 70000',
    'gantry_stored{what="files"} 3',
    'gantry_waiting{what="approvals"} 5',
    'gantry_waiting{what="unsealed"} 9',
    'gantry_queue_depth 3',
    'gantry_spans_total{outcome="sent"} 10',
    'gantry_spans_total{outcome="lost"} 4',
    'gantry_running 2',
    'gantry_refused_total{code="RATE_LIMITED"} 1',
    'tool_executor_tasks_total{tool="a:b",status="ok"} 1',
    'tool_executor_outcomes_total{tool="a:b",outcome="ok"} 1',
    'tool_executor_retries_total{tool="a:b"} 2',
  ]
  for (const line of lines) assert.ok(text.split('\n').includes(line), line)
  assert.match(text, /^nodejs_eventloop_lag_p99_seconds \d/m)
})

test('a gauge whose source fails does not prevent the others from being read', async () => {
  const failing = async (): Promise<never> => Promise.reject(new Error('The database is unavailable.'))
  const { metrics } = counted({ depth: failing, waiting: failing })
  const { text } = await metrics.read()
  metrics.close()
  assert.match(text, /^gantry_queue_depth NaN$/im)
  assert.doesNotMatch(text, /^gantry_waiting\{/m)
  assert.match(text, /^gantry_running 2$/m)
})

test('a scrape gives up gauges of an unresponsive database after a second, and reports up or down as of its end', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  let works = true
  let asked = 0
  const silent = (): Promise<never> => {
    asked += 1
    return new Promise(() => {})
  }
  const { metrics } = counted({ depth: silent, waiting: silent, stored: silent, isUp: () => works })
  for (const _ of ['first', 'second']) {
    const scrape = metrics.read()
    works = false
    for (let n = 0; n < 10; n += 1) await Promise.resolve()
    t.mock.timers.tick(1_000)
    const { text } = await scrape
    assert.match(text, /^gantry_store_up 0$/m)
    assert.match(text, /^gantry_queue_depth NaN$/im)
    assert.doesNotMatch(text, /^gantry_(?:waiting|stored)\{/m)
    assert.match(text, /^gantry_redis_lag 7$/m)
  }
  assert.equal(asked, 3, 'the second scrape repeats a query that is still pending')
  metrics.close()
})

test('metrics have a tenant label only for tenants that the configuration names', async () => {
  const { metrics, bus } = counted({ tenants: ['acme'] })
  for (let count = 0; count < 50; count += 1) {
    bus.emit('call:finished', { ...finished, tenant: `t-${count}` })
  }
  const { text } = await metrics.read()
  metrics.close()
  assert.match(text, /^gantry_tenant_tasks_total\{tenant="acme",status="ok"\} 1$/m)
  assert.match(text, /^gantry_tenant_tasks_total\{tenant="other",status="ok"\} 50$/m)
  assert.doesNotMatch(text, /t-\d/)
  const plain = counted()
  const { text: without } = await plain.metrics.read()
  plain.metrics.close()
  assert.doesNotMatch(without, /tenant/)
})

test('metrics for one tenant hide names of tools, circuits and tenants once the service has several tenants', async () => {
  const { metrics, bus } = counted()
  const before = await metrics.read('shared')
  assert.match(
    before.text,
    /^tool_executor_tasks_total\{tool="a:b",status="ok"\} 1$/m,
    'names are visible while there is one tenant',
  )
  bus.emit('call:finished', { ...finished, tool: 'umbrella:virus:1.0.0', tenant: 'umbrella' })
  const [{ text: shared }, { text: whole }] = [await metrics.read('shared'), await metrics.read('whole')]
  metrics.close()
  const secret = /umbrella|a:b|quoted|acme/
  assert.match(whole, secret)
  assert.doesNotMatch(shared, secret)
  for (const line of [
    'tool_executor_tasks_total{tool="other",status="ok"} 2',
    'tool_executor_duration_seconds_bucket{le="0.001",tool="other"} 1',
    'tool_executor_duration_seconds_bucket{le="+Inf",tool="other"} 2',
    'tool_executor_duration_seconds_count{tool="other"} 2',
    'circuit_breaker_opened_total{circuit="other"} 1',
    'gantry_stage_seconds_count{stage="execute"} 1',
  ])
    assert.equal(shared.split('\n').filter((one) => one === line).length, 1, line)
  const named = counted({ tenants: ['acme', 'umbrella'] })
  assert.doesNotMatch((await named.metrics.read('shared')).text, secret)
  named.metrics.close()
})

test('tools beyond the first 1000 are counted under one label', async () => {
  const { metrics, bus } = counted()
  for (let count = 0; count < 2_000; count += 1) {
    bus.emit('call:finished', { ...finished, tool: `a:t${count}:1.0.0` })
  }
  const { text } = await metrics.read()
  metrics.close()
  assert.ok((text.match(/^tool_executor_tasks_total\{/gm) ?? []).length <= 1_001)
  assert.match(text, /tool="other"/)
})
