import type { QueueDepth } from '../admission/counted-slots.ts'
import type { Brokers } from '../brokers/open-brokers.ts'
import type { ServiceSettings } from '../config/service-settings.ts'
import type { Snapshots } from '../config/snapshots.ts'
import type { Bus } from '../observe/bus.ts'
import type { DependencyHealth } from '../observe/dependency-health.ts'
import { createMetrics, type Metrics } from '../observe/metrics.ts'
import type { Database } from '../storage/databases/database.ts'
import { readFigures, readStored } from '../storage/figures.ts'
import type { Recorder } from '../worker/record/recorder.ts'
import type { Worker } from '../worker/worker.ts'

export interface MetricsParts {
  readonly bus: Bus
  readonly database: Database
  readonly snapshots: Snapshots
  readonly recorder: Recorder
  readonly depth: QueueDepth
  readonly brokers: Brokers
  readonly settings: ServiceSettings
  readonly health: Pick<DependencyHealth, 'isUp'>
  /** Undefined in a process that does not work. */
  readonly worker: Worker | undefined
}

/** The metrics of this process, on the real parts. */
export function openMetrics(parts: MetricsParts): Metrics {
  const { bus, database, snapshots, recorder, depth, brokers, settings, worker, health } = parts
  return createMetrics(bus, {
    depth: depth.look,
    running: () => worker?.running ?? 0,
    spooled: () => recorder.spooled,
    isUp: health.isUp,
    unrecorded: () => worker?.unrecorded.length ?? 0,
    connections: () => ({ ...database.load() }),
    sandboxes: () => ({ ...snapshots.current.executor.runtimes.load() }),
    stored: async () => ({ ...(await readStored(database)) }),
    waiting: async () => ({ ...(await readFigures(database)) }),
    tenants: Object.keys(settings.tenants).filter((name) => name !== '*'),
    lag: Object.fromEntries(
      brokers.sources.map(({ kind, transport }) => [kind, async () => (await transport.lag?.()) ?? Number.NaN]),
    ),
  })
}
