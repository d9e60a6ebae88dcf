import { type Issue, ToolError } from '@gantry/contract'
import { openPolicies, type Policies } from '../admission/policy/policy-control.ts'
import type { Snapshots } from '../config/snapshots.ts'
import type { Bus } from '../observe/bus.ts'
import { callerArtifacts } from '../storage/artifacts/caller-artifacts.ts'
import { type KnowledgeOptions, knowledgeRecords } from '../storage/knowledge/knowledge.ts'
import { createApprover } from '../worker/execute/approver.ts'
import { createFleetCircuits, type FleetCircuits } from '../worker/fleet-circuits.ts'
import { artifactTools } from '../worker/tools/artifact-tools.ts'
import { taskTools } from '../worker/tools/task-tools.ts'
import type { Additions } from './create-snapshot.ts'
import type { Storage } from './open-storage.ts'
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

const mostIssues = 20

/**
 * Reads the configuration again for whoever asks: its file changed, a signal came, a gateway or another process said so.
 * One at a time, in the order in which they were asked for, so that what was read first cannot come to be used last.
 * What is wrong is told, not used, and rejects; what is in use then stays.
 */
export function createReload(read: () => Promise<void>, bus: Bus): () => Promise<void> {
  let last: Promise<void> = Promise.resolve()
  const tryIt = async (): Promise<void> => {
    try {
      await read()
    } catch (error) {
      bus.emit('config:refused', { reason: reasonOf(error), issues: issuesOf(error) })
      throw error
    }
    bus.emit('config:read', {})
  }
  return () => {
    const mine = last.then(tryIt)
    last = mine.catch(() => undefined)
    return mine
  }
}

/** An error of the host's own module may hold anything, but it is what its writer needs. */
function reasonOf(error: unknown): string {
  return ToolError.is(error) || error instanceof Error ? error.message : String(error)
}

function issuesOf(error: unknown): readonly Pick<Issue, 'path' | 'message'>[] {
  const issues = ToolError.is(error) ? (error.details?.issues ?? []) : []
  return issues.slice(0, mostIssues).map(({ path, message }) => ({ path, message }))
}
