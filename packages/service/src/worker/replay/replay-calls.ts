import type { ArtifactRef, Identity, Replay, Result } from '@gantry/contract'
import type { Snapshots } from '../../config/snapshots.ts'
import type { Artifacts } from '../../storage/artifacts/artifact-records.ts'
import { createDigest } from '../../storage/artifacts/digest.ts'
import { readPayload } from '../../storage/artifacts/payload.ts'
import { noteAudit } from '../../storage/audit/audit-notes.ts'
import type { CallViews } from '../../storage/call-views.ts'
import type { Database } from '../../storage/databases/database.ts'
import { type RecordedCall, readRecorded } from '../../storage/recorded-calls.ts'
import { govern, type ResultLimits } from '../record/offload-result.ts'
import { restoreOutput } from '../record/restore-output.ts'
import { replay } from './replay.ts'

export interface ReplayingParts {
  readonly database: Database
  readonly views: CallViews
  readonly artifacts: Artifacts
  readonly snapshots: Snapshots
  readonly limits: Partial<ResultLimits>
}

/** Replays calls of the service, under the present configuration; each is on the audit record before it begins. */
export function createReplaying({ database, views, artifacts, snapshots, limits }: ReplayingParts) {
  return async (callId: string, reader: Identity, signal: AbortSignal): Promise<Replay> => {
    const { tenant, principal } = reader
    const recorded = await readRecorded(database.asTenant(tenant), views, { callId, reader, signal })
    await noteAudit(database, { tenant, principal, action: 'calls.replay', target: callId })
    return snapshots.use(({ executor }) =>
      replay(
        recorded,
        {
          executor,
          payload: (call) => readPayload(call, artifacts, signal),
          restore: ({ outcome, files }) => restoreOutput(outcome as Result, { artifacts, files, signal }),
          async shrink({ call, fence }, outcome) {
            const keep = keeping(recorded)
            const governed = await govern({ callId, fence, call }, outcome, { artifacts: { keep }, limits, signal })
            return governed.result
          },
        },
        signal,
      ),
    )
  }
}

/** Names the file that the record has of the same content, so that both outcomes name it alike; keeps nothing. */
function keeping({ files }: RecordedCall): Artifacts['keep'] {
  return async (content, { name, mimeType }): Promise<ArtifactRef> => {
    const hash = createDigest()
    hash.add(content)
    const digest = hash.end()
    return files.get(digest) ?? { id: 'not kept', name, mimeType, bytes: content.length, digest }
  }
}
