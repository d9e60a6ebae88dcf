import { Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client'
import type { Bus } from './bus.ts'

/** What is asked when somebody looks, instead of being counted as it happens. */
export interface Gauges {
  readonly depth: () => Promise<number>
  readonly running: () => number
  readonly spooled: () => number
  /** Outcomes that are held in memory because neither the database nor the spool takes them. */
  readonly unrecorded: () => number
  /** Whether a dependency works, by its name: `database`, or that of a transport. */
  readonly isUp: (dependency: string) => boolean
  /** By transport: messages that wait in the broker. */
  readonly lag?: { readonly [transport: string]: () => Promise<number> }
  /** Figures by the word that each is labelled with. */
  readonly connections: () => Levels
  readonly sandboxes: () => Levels
  readonly waiting: () => Promise<Levels>
  readonly stored: () => Promise<Levels>
  /** Tenants that are counted by their names; all others are counted together, so that nobody makes labels without end. */
  readonly tenants?: readonly string[]
}

/** Numbers by a word; the words are ours, and few. */
type Levels = { readonly [word: string]: number }

export interface Metrics {
  /**
   * In Prometheus text form: for whoever looks after the whole service, or for anybody, without what is named after one
   * tenant or its tools as soon as there is more than one tenant.
   */
  read(scope?: 'whole' | 'shared'): Promise<{ readonly type: string; readonly text: string }>
  close(): void
}

/** Names of tools come from the catalog, but a catalog can grow without end; what is beyond is counted together. */
const mostTools = 1_000

/** So long a scrape waits for a figure that the database or a broker has to give. */
const figureMs = 1_000

/** Labels whose values say something of one tenant. */
const telling = ['tool', 'tenant', 'circuit']

/** The name of a circuit without its origin, of which callers can make any number. */
function boundedName(circuit: string): string {
  return circuit.split(' > ', 1)[0] ?? circuit
}

/** Counts what happens in the service, under the names of the seeds and some of our own. */
export function createMetrics(bus: Bus, gauges: Gauges): Metrics {
  const registry = new Registry()
  const registers = [registry]
  /** Reads the figures that others have to give; all other gauges are read after these, so that none is old. */
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
  const refused = counter('gantry_refused_total', 'Calls that were refused before they were kept, by code.', ['code'])
  const opened = counter('circuit_breaker_opened_total', 'Circuits that opened.', ['circuit'])
  const closed = counter('circuit_breaker_closed_total', 'Circuits that closed.', ['circuit'])
  const trials = counter('circuit_breaker_trial_total', 'Calls that tried a resting circuit.', ['circuit'])
  const takeovers = counter('gantry_lease_takeovers_total', 'Leases of others that ran out and were taken away.')
  const lost = counter('gantry_leases_lost_total', 'Leases that ran out while their call ran here.')
  const lostOutcomes = counter(
    'gantry_outcomes_lost_total',
    'Outcomes that were not recorded before the worker stopped.',
  )
  const lostEvents = counter('gantry_events_lost_total', 'Reports of calls given up because the store failed.')
  const fences = counter('gantry_fence_rejections_total', 'Outcomes that came after another holder had the call.')
  const dead = counter('gantry_dead_letters_total', 'Calls and callbacks that were given up.')
  const callbacks = counter('gantry_callbacks_total', 'Callbacks that were tried, by what came of it.', ['outcome'])
  const released = counter('gantry_released_total', 'Calls that were handed back.')
  const messages = counter('gantry_messages_refused_total', 'Messages that became no call, by code.', ['code'])
  const held = counter('gantry_messages_held_total', 'Messages that were handed back to their broker.')
  const traced = counter('gantry_spans_total', 'Spans of traces that were sent or lost.', ['outcome'])
  const tenants = new Set(gauges.tenants)
  /** As many as matter: whether there is more than one. */
  const met = new Set(tenants)
  const byTenant =
    tenants.size === 0
      ? undefined
      : counter('gantry_tenant_tasks_total', 'Calls that ended, by tenant and status.', ['tenant', 'status'])
  const unstored = counter('gantry_storage_refused_total', 'Files beyond a quota, by whose it is.', ['scope'])
  const gone = counter('gantry_messages_gone_total', 'Messages that were removed before they were settled.')
  const seconds = createHistogram({
    name: 'tool_executor_duration_seconds',
    help: 'How long calls took, by tool.',
    label: 'tool',
    buckets: [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300],
  })
  const stages = createHistogram({
    name: 'gantry_stage_seconds',
    help: 'How long the stages of a call took.',
    label: 'stage',
    buckets: [0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 30],
  })
  const config = new Gauge({
    name: 'gantry_config_ok',
    help: 'Whether the last configuration read is in use.',
    registers,
  })
  config.set(1)
  gauge('gantry_store_up', 'Whether the database takes what is written.', () => up(gauges.isUp('database')))
  levels('gantry_broker_up', 'Whether the broker answers.', 'transport', () =>
    Object.fromEntries(Object.keys(gauges.lag ?? {}).map((name) => [name, up(gauges.isUp(name))])),
  )
  figure('gantry_queue_depth', 'Calls that wait.', gauges.depth)
  gauge('gantry_running', 'Calls that run in this process.', gauges.running)
  for (const [name, lag] of Object.entries(gauges.lag ?? {})) {
    figure(`gantry_${name}_lag`, `Messages that wait in ${name}.`, lag)
  }
  levels(
    'gantry_database_connections',
    'Connections to the database, and what waits for one.',
    'state',
    gauges.connections,
  )
  levels('gantry_sandboxes', 'Sandboxes in which a program runs, and that wait for one.', 'state', gauges.sandboxes)
  figures('gantry_waiting', 'Approvals that are open, and audit rows that are not sealed yet.', 'what', gauges.waiting)
  figures('gantry_stored', 'Files of calls that are stored: their bytes and their number.', 'what', gauges.stored)
  gauge('gantry_spool_depth', 'Outcomes that wait in the spool for the database.', gauges.spooled)
  gauge(
    'gantry_unrecorded_outcomes',
    'Outcomes held in memory: neither the database nor the spool takes them.',
    gauges.unrecorded,
  )
  collectDefaultMetrics({ register: registry })
  // These are gauges that are called counters, and say nothing that those by type do not.
  for (const what of ['handles', 'requests', 'resources']) registry.removeSingleMetric(`nodejs_active_${what}_total`)

  function gauge(name: string, help: string, read: () => number): void {
    const made: Gauge = new Gauge({ name, help, registers, collect: () => made.set(read()) })
  }
  function levels(name: string, help: string, label: string, read: () => Levels): void {
    const made: Gauge = new Gauge({
      ...{ name, help, labelNames: [label], registers },
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
      // A figure that is not known now is left out.
      if (now === undefined) made.reset()
      else for (const [word, level] of Object.entries(now)) made.set({ [label]: word }, level)
    })
  }

  const hearings = [
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
    bus.on('callback:tried', ({ outcome }) => {
      callbacks.inc({ outcome })
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
      // What was heard from another process is counted there.
      if (elsewhere !== true) ({ opened, closed, trial: trials })[kind].inc({ circuit: boundedName(name) })
    }),
    bus.on('message:refused', ({ code, dead: letter }) => {
      messages.inc({ code })
      if (letter) dead.inc()
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
      const told = scope === 'shared' && met.size > 1 ? foldLabels(text, telling) : text
      return { type: registry.contentType, text: told }
    },
    close() {
      for (const unhear of hearings) unhear()
      registry.clear()
    },
  }
}

function up(works: boolean): number {
  return works ? 1 : 0
}

/**
 * Asks for a figure and waits for a while; undefined when it fails or takes longer. Scrapes that come meanwhile wait for
 * the same answer, so that a silent database does not lose a connection to each of them.
 */
function bounded<T>(read: () => Promise<T>): () => Promise<T | undefined> {
  let asked: Promise<T | undefined> | undefined
  return async () => {
    asked ??= read()
      .catch(() => undefined)
      .finally(() => {
        asked = undefined
      })
    const late = Promise.withResolvers<undefined>()
    const timer = setTimeout(() => late.resolve(undefined), figureMs)
    return Promise.race([asked, late.promise]).finally(() => clearTimeout(timer))
  }
}

const sample = /^([a-z_:][\w:]*)\{(.*)\} (\S+)$/i
const label = /\b(\w+)="((?:[^"\\]|\\.)*)"/g

/**
 * Metrics in the text form of Prometheus with everything under the given labels counted together as `other`. For what
 * can be added up: counters, and the parts of histograms.
 */
export function foldLabels(text: string, folded: readonly string[]): string {
  const sums = new Map<string, number>()
  const lines = text.split('\n').map((line) => {
    const [, name = '', labels = '', value = ''] = sample.exec(line) ?? []
    let touched = false
    const told = labels.replace(label, (pair, key: string) => {
      if (!folded.includes(key)) return pair
      touched = true
      return `${key}="other"`
    })
    if (!touched) return line
    const series = `${name}{${told}}`
    const before = sums.get(series)
    sums.set(series, (before ?? 0) + Number(value))
    return before === undefined ? { series } : undefined
  })
  return lines
    .filter((line) => line !== undefined)
    .map((line) => (typeof line === 'string' ? line : `${line.series} ${sums.get(line.series)}`))
    .join('\n')
}

/** How often something took how long, by one label, in the text form of Prometheus. */
interface Histogram {
  observe(label: string, value: number): void
  text(): string
}

interface HistogramOptions {
  readonly name: string
  readonly help: string
  readonly label: string
  /** Upper bounds, ascending. */
  readonly buckets: readonly number[]
}

interface Series {
  /** Of each bucket alone, and last what is above all of them. */
  readonly counts: number[]
  sum: number
}

/** Several values are observed for each call, so that this costs no more than adding them up; prom-client's costs more. */
export function createHistogram({ name, help, label, buckets }: HistogramOptions): Histogram {
  const all = new Map<string, Series>()
  const seriesOf = (value: string): Series => {
    const found = all.get(value)
    if (found !== undefined) return found
    const made = { counts: new Array<number>(buckets.length + 1).fill(0), sum: 0 }
    all.set(value, made)
    return made
  }
  const linesOf = ([value, { counts, sum }]: [string, Series]): string[] => {
    const own = `${label}="${escaped(value)}"`
    let below = 0
    const bounds = [...buckets.map(String), '+Inf']
    const lines = bounds.map((bound, index) => {
      below += counts[index] ?? 0
      return `${name}_bucket{le="${bound}",${own}} ${below}`
    })
    return [...lines, `${name}_sum{${own}} ${sum}`, `${name}_count{${own}} ${below}`]
  }
  return {
    observe(value, amount) {
      const series = seriesOf(value)
      let index = 0
      while (index < buckets.length && amount > (buckets[index] ?? 0)) index += 1
      series.counts[index] = (series.counts[index] ?? 0) + 1
      series.sum += amount
    },
    text: () => [`# HELP ${name} ${help}`, `# TYPE ${name} histogram`, ...[...all].flatMap(linesOf), ''].join('\n'),
  }
}

function escaped(value: string): string {
  return value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')
}
