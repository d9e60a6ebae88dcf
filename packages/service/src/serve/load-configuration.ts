import { openPolicies, type Policies } from '../admission/policy/policy-control.ts'
import { createReload } from '../config/reload.ts'
import type { Snapshots } from '../config/snapshots.ts'
import { executorAdditions } from '../worker/executor-additions.ts'
import { createFleetCircuits, type FleetCircuits } from '../worker/fleet-circuits.ts'
import type { Storage } from './open-storage.ts'
import type { ServiceParts } from './start.ts'

/** The configuration in use: its executor under the stored policy, and the circuits that all processes share. */
export interface Configuration {
  readonly circuits: FleetCircuits
  readonly policies: Policies
  /** Reloads the configuration; rejects when it is invalid, and then the current one stays. */
  readonly reload: () => Promise<void>
}

/** Loads the first snapshot of the configuration. */
export async function loadConfiguration(
  parts: ServiceParts,
  storage: Storage,
  snapshots: Snapshots,
): Promise<Configuration> {
  const { database, bus, name, settings, brokers, tracer } = parts
  const circuits = createFleetCircuits({
    database,
    bus,
    worker: name,
    circuits: () => snapshots.current.executor.circuits,
  })
  const { store, files, artifacts, views, approvals, audit, clock, redactionKey } = storage
  const additions = executorAdditions({
    database,
    settings,
    store,
    files,
    artifacts,
    views,
    approvals,
    audit,
    clock,
    redactionKey,
    backgroundTasks: brokers.codecs.has('stargazer'),
    trials: circuits.trials,
    tracer,
  })
  const policies = await openPolicies({ database, snapshots })
  const load = async (): Promise<void> => snapshots.replace(policies.over(await parts.snapshot(additions)))
  await load()
  const reload = createReload(async () => {
    await load()
    await circuits.sync()
  }, bus)
  return { circuits, policies, reload }
}
