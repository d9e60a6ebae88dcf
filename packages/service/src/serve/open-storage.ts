import { createRedactionMark } from '@gantry/core/internal/json/redact'
import { slotsOfToday } from '../admission/intake.ts'
import type { Snapshots } from '../config/snapshots.ts'
import { quotasOf } from '../config/tenant-limits.ts'
import { type ApprovalRecords, approvalRecords, ownerApproval } from '../storage/approvals/approvals.ts'
import { type Artifacts, artifactRecords } from '../storage/artifacts/artifact-records.ts'
import { type ArtifactFiles, reportingFiles } from '../storage/artifacts/fallback.ts'
import { type AuditLog, createAuditLog } from '../storage/audit/audit-log.ts'
import { type CallViews, callViews } from '../storage/call-views.ts'
import { createCallIds } from '../storage/calls/call-facts.ts'
import type { CallStore } from '../storage/calls/call-store.ts'
import { createDatabaseClock, type DatabaseClock } from '../storage/calls/lease-time.ts'
import { sqlCallStore } from '../storage/calls/sql.ts'
import { redactionKey } from '../storage/connect-storage.ts'
import type { Database } from '../storage/databases/database.ts'
import { type DeadLetters, deadLetterRecords } from '../storage/dead-letters/dead-letters.ts'
import { type EventRecords, eventRecords } from '../storage/events.ts'
import { type JournalRecords, journalRecords } from '../storage/journal.ts'
import { type OutboxPosts, outboxPosts } from '../storage/outbox/outbox.ts'
import { type WorkerRecords, workerRecords } from '../storage/workers.ts'
import type { ServiceParts } from './start.ts'

/** Every store of the service, over one database and one artifact store. */
export interface Storage {
  readonly database: Database
  readonly files: ArtifactFiles
  readonly store: CallStore
  readonly artifacts: Artifacts
  readonly views: CallViews
  readonly events: EventRecords
  readonly journal: JournalRecords
  readonly posts: OutboxPosts
  readonly workers: WorkerRecords
  readonly approvals: ApprovalRecords
  readonly deadLetters: DeadLetters
  readonly audit: AuditLog
  /** The database time as known in this process. */
  readonly clock: DatabaseClock
  /** Keys the digests that replace redacted arguments. */
  readonly redactionKey: string
  readonly newId: () => string
}

export async function openStorage(parts: ServiceParts, snapshots: Snapshots): Promise<Storage> {
  const { settings, database, bus, brokers, identity, auditKeys } = parts
  const files = reportingFiles(parts.files, bus)
  const artifacts = artifactRecords(database, files, {
    quotas: quotasOf(settings),
    refused: (refusal) => bus.emit('storage:refused', refusal),
  })
  const workers = workerRecords(database)
  const clock = createDatabaseClock()
  await clock.learn(() => workers.time())
  const key = await redactionKey(database)
  const newId = createCallIds()
  return {
    database,
    files,
    store: sqlCallStore(database, [...brokers.publishers.keys()]),
    artifacts,
    views: callViews(database, artifacts, createRedactionMark(key)),
    events: eventRecords(database),
    journal: journalRecords(database),
    posts: outboxPosts(database),
    workers,
    approvals: approvalRecords(database, {
      artifacts,
      maxBytes: () => settings.artifactBytes,
      self: ownerApproval({ owner: identity, exclusive: database.exclusive, settings }),
      announces: () => settings.approvals.webhook !== undefined,
    }),
    deadLetters: deadLetterRecords({
      database,
      newId,
      mark: createRedactionMark(key),
      prepare: slotsOfToday(snapshots),
    }),
    audit: createAuditLog({ database, bus, keys: auditKeys, snapshots }),
    clock,
    redactionKey: key,
    newId,
  }
}
