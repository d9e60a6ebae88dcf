import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { ToolError } from '@gantry/contract'
import type { S3Settings } from '../config/broker-settings.ts'
import { readTlsFiles, resolveText } from '../config/secret-sources.ts'
import { isLoopback } from '../config/service-files.ts'
import type { ServiceSettings } from '../config/service-settings.ts'
import type { ArtifactFiles } from './artifacts/fallback.ts'
import { folderArtifacts } from './artifacts/folder.ts'
import type { Database, Queries } from './databases/database.ts'
import { migrate } from './databases/migrate.ts'

export interface OpenedStorage {
  readonly database: Database
  readonly files: ArtifactFiles
}

/** Limits of the spool for artifacts while S3 is unavailable. */
const spoolLimits = { fileBytes: 8_388_608, files: 1_000 }

/** Opens and migrates the configured database, embedded or PostgreSQL, and opens the artifact store. */
export async function connectStorage(
  { databaseUrl, data, brokers }: ServiceSettings,
  say: (line: string) => void,
  secrets?: unknown,
): Promise<OpenedStorage> {
  const database = databaseUrl === undefined ? await openEmbedded(data, say) : await openReal(databaseUrl, say)
  try {
    const { s3 } = brokers
    if (s3 !== undefined) return { database, files: await openS3(s3, data, say, secrets) }
    return { database, files: folderArtifacts({ folder: join(data, 'artifacts') }) }
  } catch (error) {
    await database.close()
    throw error
  }
}

async function openS3(
  { caFile, ...s3 }: S3Settings,
  data: string,
  say: (line: string) => void,
  secrets: unknown,
): Promise<ArtifactFiles> {
  say(`keeping artifacts in the bucket ${s3.bucket} of ${s3.endpoint ?? 'Amazon S3'}`)
  const { s3Artifacts } = await import('./artifacts/s3.ts')
  const { spooledArtifacts } = await import('./artifacts/fallback.ts')
  const secretAccessKey = await resolveText(s3.secretAccessKey, secrets, '/s3/secretAccessKey names')
  const tls = await readTlsFiles(caFile === undefined ? {} : { caFile }, '/s3')
  return spooledArtifacts(s3Artifacts({ ...s3, ...tls, secretAccessKey }), join(data, 'artifact-spool'), spoolLimits)
}

// Drivers are loaded on use, because they are the largest parts of the service.
async function openEmbedded(data: string, say: (line: string) => void): Promise<Database> {
  const first = existsSync(join(data, 'db')) ? '' : '; creating it takes some seconds'
  say(`opening the embedded database in ${data}${first}`)
  const { openPglite } = await import('./databases/pglite.ts')
  const database = await openPglite({ folder: data })
  return (await migrated(database)).asService()
}

async function openReal(url: string, say: (line: string) => void): Promise<Database> {
  const { host, hostname, pathname, search } = new URL(url)
  const open = !isLoopback(hostname) && !/[?&]ssl/.test(search) && process.env.PGSSLMODE === undefined
  say(`connecting to PostgreSQL at ${host}${pathname}${open ? ', without TLS: sslmode=verify-full asks for it' : ''}`)
  const { openPostgres } = await import('./databases/postgres.ts')
  // A migration of large tables, or behind another one, takes longer than any other statement may.
  const patient = await openPostgres({ url, connections: 1, statementMs: 0 })
  await (await migrated(patient)).close()
  return (await openPostgres({ url })).asService()
}

/** Migrates the database; closes it when that fails. */
async function migrated(database: Database): Promise<Database> {
  try {
    await migrate(database)
    return database
  } catch (error) {
    await database.close()
    throw error
  }
}

/** The key of digests of redacted texts and of fingerprints of approvals; a migration creates it. */
export async function redactionKey(queries: Queries): Promise<string> {
  const [row] = await queries.query<{ key: string }>('select key from redaction_keys')
  if (row === undefined) throw new ToolError('INTERNAL', 'The table redaction_keys has no row.')
  return row.key
}
