import type { LoadedConfig } from '../config/config.ts'
import type { ServiceSettings } from '../config/service-settings.ts'
import type { Additions } from '../config/snapshots.ts'
import type { ApprovalRecords } from '../storage/approvals/approvals.ts'
import type { Artifacts } from '../storage/artifacts/artifact-records.ts'
import { callerArtifacts } from '../storage/artifacts/caller-artifacts.ts'
import type { ArtifactFiles } from '../storage/artifacts/fallback.ts'
import type { AuditLog } from '../storage/audit/audit-log.ts'
import type { CallViews } from '../storage/call-views.ts'
import type { CallStore } from '../storage/calls/call-store.ts'
import type { DatabaseClock } from '../storage/calls/lease-time.ts'
import type { Database } from '../storage/databases/database.ts'
import { knowledgeOptions, knowledgeRecords } from '../storage/knowledge/knowledge.ts'
import { createApprover } from './execute/approver.ts'
import { artifactTools } from './tools/artifact-tools.ts'
import { taskTools } from './tools/task-tools.ts'

export interface AdditionParts {
  readonly database: Database
  readonly settings: ServiceSettings
  readonly store: CallStore
  readonly files: ArtifactFiles
  readonly artifacts: Artifacts
  readonly views: CallViews
  readonly approvals: ApprovalRecords
  readonly audit: AuditLog
  readonly clock: DatabaseClock
  readonly redactionKey: string
  /** Whether gateways ask for background tasks. */
  readonly backgroundTasks: boolean
  readonly trials: Additions['trials']
  readonly tracer: Additions['tracer']
}

/** What the service adds to the executor of every configuration. */
export function executorAdditions(parts: AdditionParts): Additions {
  const { database, settings, store, files, artifacts, views, redactionKey } = parts
  const { errorText = false } = settings.brokers.redis ?? {}
  const ofTasks = parts.backgroundTasks ? taskTools(views, { errorText }) : []
  return {
    audit: parts.audit.audit,
    tools: [...artifactTools(artifacts), ...ofTasks],
    artifacts: callerArtifacts({ database, store: files, artifacts, maxBytes: () => settings.artifactBytes }),
    knowledge: (options: LoadedConfig['knowledge']) => knowledgeRecords(database, knowledgeOptions(options)),
    trials: parts.trials,
    tracer: parts.tracer,
    now: parts.clock.now,
    redactionKey,
    approver: createApprover(parts.approvals, { key: redactionKey, entering: store.entering }),
  }
}
