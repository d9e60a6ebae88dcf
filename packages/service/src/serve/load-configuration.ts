import { openPolicies, type Policies } from '../admission/policy/policies.ts'
import type { Snapshots } from '../config/snapshots.ts'
import { callerArtifacts } from '../storage/artifacts/caller-artifacts.ts'
import { type KnowledgeOptions, knowledgeRecords } from '../storage/knowledge/knowledge.ts'
import { createApprover } from '../worker/execute/approver.ts'
import { createFleetCircuits, type FleetCircuits } from '../worker/fleet-circuits.ts'
import { artifactTools } from '../worker/tools/artifact-tools.ts'
import { taskTools } from '../worker/tools/task-tools.ts'
import type { Additions } from './additions.ts'
import type { Storage } from './open-storage.ts'
import { createReload } from './reload.ts'
import type { ServiceParts } from './start.ts'

/** The configuration in use: its executor under the stored policy, and the circuits that all processes share. */
export interface Configuration {
  readonly circuits: FleetCircuits
  readonly policies: Policies
  /** Reads the configuration again; rejects when it is wrong, and then the present one stays. */
  readonly reload: () => Promise<void>
}

/** Loads the first snapshot of the configuration. */
export async function loadConfiguration(
  parts: ServiceParts,
  storage: Storage,
  snapshots: Snapshots,
): Promise<Configuration> {
  const { database, bus, name } = parts
  const circuits = createFleetCircuits({
    database,
    bus,
    worker: name,
    circuits: () => snapshots.current.executor.circuits,
  })
  const additions = additionsOf(parts, storage, circuits)
  const policies = await openPolicies({ database, snapshots })
  const load = async (): Promise<void> => snapshots.replace(policies.over(await parts.snapshot(additions)))
  await load()
  const reload = createReload(async () => {
    await load()
    await circuits.sync()
  }, bus)
  return { circuits, policies, reload }
}

/** What the service adds to the executor of every configuration. */
function additionsOf(parts: ServiceParts, storage: Storage, { trials }: FleetCircuits): Additions {
  const { settings, database, brokers, tracer } = parts
  const { store, files, artifacts, views, approvals, audit, clock, redactionKey } = storage
  const { errorText = false } = settings.brokers.redis ?? {}
  const ofTasks = brokers.codecs.has('stargazer') ? taskTools(views, { errorText }) : []
  return {
    audit: audit.audit,
    tools: [...artifactTools(artifacts), ...ofTasks],
    artifacts: callerArtifacts({ database, store: files, artifacts, maxBytes: () => settings.artifactBytes }),
    knowledge: (options: KnowledgeOptions) => knowledgeRecords(database, options),
    trials,
    tracer,
    now: clock.now,
    redactionKey,
    approver: createApprover(approvals, { key: redactionKey, entering: store.entering }),
  }
}
