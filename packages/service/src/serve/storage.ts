import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { ArtifactStore } from '../artifacts/artifact-store.ts'
import { folderArtifacts } from '../artifacts/folder.ts'
import type { ServiceSettings } from '../config/service-settings.ts'
import type { Database } from '../databases/database.ts'
import { migrate } from '../databases/migrate.ts'

export interface Storage {
  readonly database: Database
  readonly files: ArtifactStore
}

/** Opens the database that the settings name, embedded or real, with its tables, and the folder of artifacts. */
export async function openStorage(
  { databaseUrl, data }: ServiceSettings,
  say: (line: string) => void,
): Promise<Storage> {
  const database = databaseUrl === undefined ? await openEmbedded(data, say) : await openReal(databaseUrl, say)
  try {
    return { database, files: await folderArtifacts({ folder: join(data, 'artifacts') }) }
  } catch (error) {
    await database.close()
    throw error
  }
}

// Each driver is loaded when it is used: they are the heaviest parts of the service.
async function openEmbedded(data: string, say: (line: string) => void): Promise<Database> {
  const first = existsSync(join(data, 'db')) ? '' : '; the first time it is made, which takes some seconds'
  say(`opening the embedded database in ${data}${first}`)
  const { openPglite } = await import('../databases/pglite.ts')
  const database = await openPglite({ folder: data })
  return migrated(database)
}

async function openReal(url: string, say: (line: string) => void): Promise<Database> {
  const { host, pathname } = new URL(url)
  say(`connecting to PostgreSQL at ${host}${pathname}`)
  const { openPostgres } = await import('../databases/postgres.ts')
  // A migration of large tables, or behind another one, takes longer than any other statement may.
  const patient = await openPostgres({ url, connections: 1, statementMs: 0 })
  await (await migrated(patient)).close()
  return openPostgres({ url })
}

/** With its tables as this version needs them; closed when they cannot be made. */
async function migrated(database: Database): Promise<Database> {
  try {
    await migrate(database)
    return database
  } catch (error) {
    await database.close()
    throw error
  }
}
