import { ToolError } from '@gantry/contract'
import type { Audit } from '@gantry/core'
import type { LoadedConfig } from '../../config/config.ts'
import { secretText } from '../../config/secret-text.ts'
import type { ServiceSettings } from '../../config/service-settings.ts'
import type { Snapshot } from '../../config/snapshots.ts'
import type { Bus } from '../../observe/bus.ts'
import type { Database } from '../databases/database.ts'
import type { Chore } from '../periodic-jobs.ts'
import { type AuditControl, createAuditControl } from './audit-control.ts'
import { type AuditNote, noteAudit } from './audit-notes.ts'
import { sqlAudit } from './call-audit.ts'
import { createRefusals, type Refusals } from './refusals.ts'
import { createSealer } from './sealer.ts'
import { type SealKey, sealKey } from './seals.ts'

export interface AuditingParts {
  readonly database: Database
  readonly bus: Bus
  /** The first makes seals, all of them verify. */
  readonly keys: readonly SealKey[]
  /** The version of the present configuration goes into each entry. */
  readonly snapshots: { readonly current: Pick<Snapshot, 'version'> }
}

/** Everything about the audit record that a process does besides what stands in its statements. */
export interface Auditing {
  /** For the pipeline. */
  readonly audit: Audit
  readonly refusals: Refusals
  /** For the doors. */
  readonly control: AuditControl
  readonly note: (note: AuditNote) => Promise<void>
  readonly chores: readonly Chore[]
  /** Writes and seals what is left, and tells the head. */
  close(): Promise<void>
}

const sealMs = 1_000
/** The head goes to the log so often, and from there to where nobody can change it who can change the record. */
const headMs = 10 * 60_000

export function createAuditing({ database, bus, keys, snapshots }: AuditingParts): Auditing {
  const sealer = createSealer({ database, key: keys[0] })
  const refusals = createRefusals(database)
  let head: string | undefined
  let told: string | undefined
  const seal = async (): Promise<void> => {
    await refusals.flush()
    head = (await sealer.seal()).head ?? head
  }
  const tell = async (): Promise<void> => {
    if (head !== undefined && head !== told) bus.emit('audit:head', { head })
    told = head
  }
  return {
    audit: sqlAudit(database, () => snapshots.current.version),
    refusals,
    control: createAuditControl(database, { sealer, keys }),
    note: (note) => noteAudit(database, note),
    chores: [
      { name: 'seal', everyMs: sealMs, work: seal },
      { name: 'audit head', everyMs: headMs, work: tell },
    ],
    async close() {
      await seal().catch(() => undefined)
      await tell()
    },
  }
}

/** Shorter ones can be guessed, and whoever has a seal can try. */
const shortestKey = 16

/** What the configuration names to make and verify seals with; SECRET_UNAVAILABLE for one that is not there or too short. */
export async function auditKeys({ auditSecrets }: ServiceSettings, { options }: LoadedConfig): Promise<SealKey[]> {
  const keys: SealKey[] = []
  for (const name of auditSecrets) {
    const text = await secretText(name, options.secrets, 'seals the audit record')
    if (text.length < shortestKey) {
      const message = `The secret ${name}, which seals the audit record, has less than ${shortestKey} characters.`
      throw new ToolError('SECRET_UNAVAILABLE', message)
    }
    keys.push(sealKey(text))
  }
  return keys
}
