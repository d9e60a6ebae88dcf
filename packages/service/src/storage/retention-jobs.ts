import type { ServiceSettings } from '../config/service-settings.ts'
import type { ArtifactStore } from './artifacts/artifact-store.ts'
import type { Database } from './databases/database.ts'
import type { Chore } from './periodic-jobs.ts'
import { type RetentionOptions, removeExpired, removeStrayFiles } from './retention.ts'

const retentionMs = 10 * 60_000
const strayMs = 24 * 3_600_000
/** A process that is started anew every hour must clean up too. */
const firstMs = 60_000

/** Removes what is older than its retention, and files that nothing names. */
export function cleaningChores(
  database: Database,
  files: ArtifactStore,
  settings: Pick<ServiceSettings, 'retentionMs' | 'auditRetentionMs'>,
  how: Pick<RetentionOptions, 'auditKeys' | 'signal'>,
): readonly Chore[] {
  const expire = (): Promise<unknown> =>
    removeExpired(database, files, { callsMs: settings.retentionMs, auditMs: settings.auditRetentionMs, ...how })
  return [
    { name: 'retention', everyMs: retentionMs, firstMs, work: expire },
    {
      name: 'stray files',
      everyMs: strayMs,
      firstMs: 10 * firstMs,
      work: () => removeStrayFiles(database, files, how),
    },
  ]
}
