import { within } from '@gantry/core/internal/resilience/abort'
import { Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client'
import type { Bus } from './bus.ts'
import { createHistogram, type MetricInfo } from './histogram.ts'

/** Values that are read at each scrape, not counted from events. */
export interface Gauges {
  readonly depth: () => Promise<number>
  readonly running: () => number
  readonly spooled: () => number
  /** Outcomes in memory that neither the database nor the spool accepts. */
  readonly unrecorded: () => number
  /** Whether a dependency is up: `database`, or the name of a transport. */
  readonly isUp: (dependency: string) => boolean
  /** By transport: messages that wait in the broker. */
  readonly lag?: { readonly [transport: string]: () => Promise<number> }
  /** Values by label. */
  readonly connections: () => Levels
  readonly sandboxes: () => Levels
  /** Other servers that differ in what must be equal, by what it is. */
  readonly mismatches: () => Levels
  readonly waiting: () => Promise<Levels>
  readonly stored: () => Promise<Levels>
  /** Tenants with a label of their own. All others share one, to bound the number of labels. */
  readonly tenants?: readonly string[]
}

/** Values by label; the labels are a small fixed set. */
type Levels = { readonly [word: string]: number }

export interface Metrics {
  /**
   * The Prometheus text format. `whole` is for operators of the service; `shared` folds the labels of tenants, tools
   * and circuits once there is more than one tenant.
   */
  read(scope?: 'whole' | 'shared'): Promise<{ readonly type: string; readonly text: string }>
  list(): readonly MetricInfo[]
  close(): void
}

/** Limit of tool labels, because a catalog can grow without bound; further tools share one label. */
const mostTools = 1_000

/** How long a scrape waits for a value from the database or a broker. */
const figureMs = 1_000

/** Labels whose values reveal something about a tenant. */
const telling = ['tool', 'tenant', 'circuit']

/** The name of a circuit without its origin, because callers can create any number of origins. */
function boundedName(circuit: string): string {
  return circuit.split(' > ', 1)[0] ?? circuit
}

/** Metrics of the service; those named tool_executor_* and circuit_breaker_* come from its predecessors. */
export function createMetrics(bus: Bus, gauges: Gauges): Metrics {
  const registry = new Registry()
  const registers = [registry]
  /** Refreshes values from other systems; all other gauges are read after these, so that none is outdated. */
  const refreshes: (() => Promise<void>)[] = []
  const tools = new Map<string, string>()
  const toolOf = (id: string): string => {
    const known = tools.get(id)
    if (known !== undefined || tools.size >= mostTools) return known ?? 'other'
    const name = id.split(':').slice(0, 2).join(':')
    tools.set(id, name)
    return name
  }
  const counter = <Label extends string>(name: string, help: string, labelNames: Label[] = []): Counter<Label> =>
    new Counter({ name, help, labelNames, registers })
  const tasks = counter('tool_executor_tasks_total', 'Calls that ended, by tool and status.', ['tool', 'status'])
  const outcomes = counter(
    'tool_executor_outcomes_total',
    'Calls that ended, by tool and class of outcome: a failure that the tool threw is an exception.',
    ['tool', 'outcome'],
  )
  const retries = counter('tool_executor_retries_total', 'Attempts beyond the first of each call, by tool.', ['tool'])
  const refused = counter('gantry_refused_total', 'Calls refused before they were stored, by code.', ['code'])
  const opened = counter('circuit_breaker_opened_total', 'Circuits that opened.', ['circuit'])
  const closed = counter('circuit_breaker_closed_total', 'Circuits that closed.', ['circuit'])
  const trials = counter('circuit_breaker_trial_total', 'Trial calls of open circuits.', ['circuit'])
  const takeovers = counter('gantry_lease_takeovers_total', 'Expired leases of other workers that were reclaimed.')
  const lost = counter('gantry_leases_lost_total', 'Leases lost while their call ran in this process.')
  const lostOutcomes = counter(
    'gantry_outcomes_lost_total',
    'Outcomes that were not recorded before the worker stopped.',
  )
  const lostEvents = counter(
    'gantry_events_lost_total',
    'Progress events of calls that were dropped because the store failed.',
  )
  const fences = counter(
    'gantry_fence_rejections_total',
    'Outcomes refused because another worker had claimed the call.',
  )
  const dead = counter('gantry_dead_letters_total', 'Calls and callbacks that became dead letters.')
  const callbacks = counter('gantry_callbacks_total', 'Attempts to send a callback, by outcome.', ['outcome'])
  const announced = counter(
    'gantry_approval_webhooks_total',
    'Attempts to send a message to the webhook of approvals, by outcome.',
    ['outcome'],
  )
  const released = counter('gantry_released_total', 'Calls that workers released.')
  const messages = counter('gantry_messages_refused_total', 'Messages that were refused as calls, by code.', ['code'])
  const held = counter('gantry_messages_held_total', 'Messages released to their broker for redelivery.')
  const traced = counter('gantry_spans_total', 'Spans of traces that were sent or lost.', ['outcome'])
  const tenants = new Set(gauges.tenants)
  /** Tenants seen so far; only whether there is more than one matters. */
  const met = new Set(tenants)
  const byTenant =
    tenants.size === 0
      ? undefined
      : counter('gantry_tenant_tasks_total', 'Calls that ended, by tenant and status.', ['tenant', 'status'])
  const unstored = counter('gantry_storage_refused_total', 'Files refused because of a quota, by scope of the quota.', [
    'scope',
  ])
  const gone = counter('gantry_messages_gone_total', 'Messages removed from their stream before they were settled.')
  const seconds = createHistogram({
    name: 'tool_executor_duration_seconds',
    help: 'Duration of calls, by tool.',
    label: 'tool',
    buckets: [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300],
  })
  const stages = createHistogram({
    name: 'gantry_stage_seconds',
    help: 'Duration of the stages of calls.',
    label: 'stage',
    buckets: [0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 30],
  })
  const config = new Gauge({
    name: 'gantry_config_ok',
    help: 'Whether the configuration that was read last is in use.',
    registers,
  })
  config.set(1)
  gauge('gantry_store_up', 'Whether the database accepts writes.', () => up(gauges.isUp('database')))
  levels('gantry_broker_up', 'Whether the broker is available.', 'transport', () =>
    Object.fromEntries(Object.keys(gauges.lag ?? {}).map((name) => [name, up(gauges.isUp(name))])),
  )
  figure('gantry_queue_depth', 'Waiting calls.', gauges.depth)
  gauge('gantry_running', 'Calls that run in this process.', gauges.running)
  for (const [name, lag] of Object.entries(gauges.lag ?? {})) {
    figure(`gantry_${name}_lag`, `Messages that wait in ${name}.`, lag)
  }
  levels(
    'gantry_database_connections',
    'Connections to the database, and statements that wait for one.',
    'state',
    gauges.connections,
  )
  levels(
    'gantry_server_mismatch',
    'Other live servers that differ from this one in what must be equal, by what it is.',
    'what',
    gauges.mismatches,
  )
  levels('gantry_sandboxes', 'Running sandboxes, and requests that wait for one.', 'state', gauges.sandboxes)
  figures('gantry_waiting', 'Open approvals, and audit entries that are not sealed yet.', 'what', gauges.waiting)
  figures('gantry_stored', 'Stored files of calls: bytes and number.', 'what', gauges.stored)
  gauge('gantry_spool_depth', 'Outcomes that wait in the spool for the database.', gauges.spooled)
  gauge(
    'gantry_unrecorded_outcomes',
    'Outcomes in memory that neither the database nor the spool accepts.',
    gauges.unrecorded,
  )
  collectDefaultMetrics({ register: registry })
  // These are gauges named like counters, and repeat the gauges by type.
  for (const what of ['handles', 'requests', 'resources']) registry.removeSingleMetric(`nodejs_active_${what}_total`)

  function gauge(name: string, help: string, read: () => number): void {
    const made: Gauge = new Gauge({ name, help, registers, collect: () => made.set(read()) })
  }
  function levels(name: string, help: string, label: string, read: () => Levels): void {
    const made: Gauge = new Gauge({
      name,
      help,
      labelNames: [label],
      registers,
      collect() {
        for (const [word, level] of Object.entries(read())) made.set({ [label]: word }, level)
      },
    })
  }
  function figure(name: string, help: string, read: () => Promise<number>): void {
    const made = new Gauge({ name, help, registers })
    const ask = bounded(read)
    refreshes.push(async () => made.set((await ask()) ?? Number.NaN))
  }
  function figures(name: string, help: string, label: string, read: () => Promise<Levels>): void {
    const made = new Gauge({ name, help, labelNames: [label], registers })
    const ask = bounded(read)
    refreshes.push(async () => {
      const now = await ask()
      // An unknown value is omitted.
      if (now === undefined) made.reset()
      else for (const [word, level] of Object.entries(now)) made.set({ [label]: word }, level)
    })
  }

  const subscriptions = [
    bus.on('storage:refused', ({ scope }) => unstored.inc({ scope })),
    bus.on('call:finished', ({ tool, tenant, status, outcome, retries: repeated, durationMs }) => {
      if (met.size < 2) met.add(tenant)
      byTenant?.inc({ tenant: tenants.has(tenant) ? tenant : 'other', status })
      const name = toolOf(tool)
      tasks.inc({ tool: name, status })
      outcomes.inc({ tool: name, outcome })
      if (repeated > 0) retries.inc({ tool: name }, repeated)
      seconds.observe(name, durationMs / 1_000)
    }),
    bus.on('call:refused', ({ code }) => refused.inc({ code })),
    bus.on('call:released', () => released.inc()),
    bus.on('callback:tried', ({ kind, outcome }) => {
      ;(kind === 'approval' ? announced : callbacks).inc({ outcome })
      if (outcome === 'dead') dead.inc()
    }),
    bus.on('call:dead', () => dead.inc()),
    bus.on('events:lost', ({ events }) => lostEvents.inc(events)),
    bus.on('outcome:lost', () => lostOutcomes.inc()),
    bus.on('lease:reclaimed', ({ calls }) => takeovers.inc(calls)),
    bus.on('lease:lost', () => lost.inc()),
    bus.on('fence:refused', () => fences.inc()),
    bus.on('stage:timed', ({ stage, ms }) => stages.observe(stage, ms / 1_000)),
    bus.on('circuit:changed', ({ kind, name, elsewhere }) => {
      // A change made by another process is counted there.
      if (elsewhere !== true) ({ opened, closed, trial: trials })[kind].inc({ circuit: boundedName(name) })
    }),
    bus.on('message:refused', ({ code, dead: isDead }) => {
      messages.inc({ code })
      if (isDead) dead.inc()
    }),
    bus.on('message:held', () => held.inc()),
    bus.on('message:gone', () => gone.inc()),
    bus.on('spans:sent', ({ spans }) => traced.inc({ outcome: 'sent' }, spans)),
    bus.on('spans:lost', ({ spans }) => traced.inc({ outcome: 'lost' }, spans)),
    bus.on('config:read', () => config.set(1)),
    bus.on('config:refused', () => config.set(0)),
  ]
  return {
    async read(scope = 'whole') {
      await Promise.all(refreshes.map((refresh) => refresh()))
      const text = `${await registry.metrics()}\n${seconds.text()}\n${stages.text()}`
      const shown = scope === 'shared' && met.size > 1 ? foldLabels(text, telling) : text
      return { type: registry.contentType, text: shown }
    },
    list() {
      const registered = registry.getMetricsAsArray().map((metric) => {
        const { name, help, type, labelNames = [] } = metric as typeof metric & { readonly labelNames?: string[] }
        return { name, help, type: String(type), labels: labelNames }
      })
      return [...registered, seconds.info, stages.info]
    },
    close() {
      for (const unsubscribe of subscriptions) unsubscribe()
      registry.clear()
    },
  }
}

function up(works: boolean): number {
  return works ? 1 : 0
}

/**
 * Reads a value with a time limit; undefined when it fails or times out. Concurrent scrapes share one pending read, so
 * that an unresponsive database does not occupy a connection for each.
 */
function bounded<T>(read: () => Promise<T>): () => Promise<T | undefined> {
  let asked: Promise<T | undefined> | undefined
  return async () => {
    asked ??= read()
      .catch(() => undefined)
      .finally(() => {
        asked = undefined
      })
    return within(figureMs, asked, () => undefined)
  }
}

const sample = /^([a-z_:][\w:]*)\{(.*)\} (\S+)$/i
const label = /\b(\w+)="((?:[^"\\]|\\.)*)"/g

/**
 * Folds all values of the given labels into `other`, in the Prometheus text format. For metrics that can be summed:
 * counters and histograms.
 */
export function foldLabels(text: string, folded: readonly string[]): string {
  const sums = new Map<string, number>()
  const lines = text.split('\n').map((line) => {
    const [, name = '', labels = '', value = ''] = sample.exec(line) ?? []
    let touched = false
    const kept = labels.replace(label, (pair, key: string) => {
      if (!folded.includes(key)) return pair
      touched = true
      return `${key}="other"`
    })
    if (!touched) return line
    const series = `${name}{${kept}}`
    const before = sums.get(series)
    sums.set(series, (before ?? 0) + Number(value))
    return before === undefined ? { series } : undefined
  })
  return lines
    .filter((line) => line !== undefined)
    .map((line) => (typeof line === 'string' ? line : `${line.series} ${sums.get(line.series)}`))
    .join('\n')
}

/** Reads tables of the database. */
interface Tables {
  query<Row extends { readonly [column: string]: unknown }>(sql: string): Promise<readonly Row[]>
}

/** Metrics that are read from tables. */
interface Figures {
  /** Open approvals of calls that still wait for them. */
  readonly approvals: number
  /** Entries of the audit log that are not sealed yet. */
  readonly unsealed: number
}

/** Counting stops here, because counting more would take longer than a scrape waits. */
const most = 100_000

const figuresSql = `
  select
    (select count(*) from (
      select from approvals p join queue q on q.call_id = p.call_id
      where p.decision is null and p.expires_at > now() limit ${most}
    ) a)::integer as approvals,
    (select count(*) from (
      select from audit where seq > (select coalesce(max(upto_seq), 0) from audit_seals) limit ${most}
    ) u)::integer as unsealed`

/** Stored files of all tenants. */
export async function readStored(database: Tables): Promise<{ readonly bytes: number; readonly files: number }> {
  const [stored] = await database.query<{ bytes: number; files: number }>(storedSql)
  return stored ?? { bytes: 0, files: 0 }
}

const storedSql = `
  select coalesce(sum(bytes), 0)::bigint as bytes, coalesce(sum(files), 0)::bigint as files
  from stored_usage where principal = ''`

/** Reads all figures concurrently. */
export async function readFigures(database: Tables): Promise<Figures> {
  const [figures] = await database.query<{ approvals: number; unsealed: number }>(figuresSql)
  return figures ?? { approvals: 0, unsealed: 0 }
}
