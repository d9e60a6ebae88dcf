import { hash } from 'node:crypto'
import { join } from 'node:path'
import type { Executor } from '@gantry/core'
import type { LoadedConfig } from '../config/config.ts'
import { ensureApiKey } from '../config/service-files.ts'
import type { Snapshots } from '../config/snapshots.ts'
import { createServerComparison, type ServerComparison, type SharedTexts } from '../storage/server-comparison.ts'
import type { Storage } from './open-storage.ts'
import type { ServiceParts } from './start.ts'

/** Compares this process with the others on its database; nothing is compared on one that no other process can open. */
export async function compareServers(
  { database, bus, name, auditKeys, sharedTexts }: ServiceParts,
  { files, workers, redactionKey }: Storage,
  snapshots: Snapshots,
): Promise<ServerComparison> {
  const texts = async (): Promise<SharedTexts> => {
    // A folder that cannot be written is reported as the dependency that it is.
    const artifacts = await files.place?.().catch(() => undefined)
    return {
      ...(await sharedTexts?.()),
      audit_keys: JSON.stringify(auditKeys.map(({ secret }) => secret)),
      tools: toolsText(snapshots.current.executor),
      ...(artifacts === undefined ? {} : { artifacts }),
    }
  }
  const comparison = createServerComparison({
    name,
    bus,
    key: redactionKey,
    texts: database.exclusive ? undefined : texts,
    list: workers.list,
  })
  await comparison.refresh()
  snapshots.onReplace(comparison.expire)
  return comparison
}

/** The tools of the configuration with their digests. Those of backends are discovered at other times by each process. */
function toolsText({ catalog }: Executor): string {
  const lines: string[] = []
  for (let cursor: string | undefined, more = true; more; more = cursor !== undefined) {
    const page = catalog.list({ limit: 1_000, allVersions: true, cursor })
    for (const { id, digest, source } of page.items) if (source === 'local') lines.push(`${id} ${digest}`)
    cursor = page.cursor
  }
  return hash('sha256', lines.sort().join('\n'))
}

interface SharedKeys {
  readonly latest: () => LoadedConfig
  readonly callbackKey: (tenant: string) => Promise<Uint8Array | undefined>
  readonly approvalKey: () => Promise<Uint8Array | undefined>
}

/** The keys that this process uses in its roles, and its configuration. */
export function sharedKeys({ latest, callbackKey, approvalKey }: SharedKeys): () => Promise<SharedTexts> {
  return async () => {
    const { service, shared } = latest()
    const { roles, data, approvals } = service
    const callbacks = roles.includes('relay') ? await callbackKey('') : undefined
    const announcing = roles.includes('relay') && approvals.webhook?.secret !== undefined
    const approving = announcing ? await approvalKey() : undefined
    return {
      ...(roles.includes('api') ? { api_key: (await ensureApiKey(join(data, 'key'))).key } : {}),
      ...(callbacks === undefined ? {} : { callback_key: textOf(callbacks) }),
      ...(approving === undefined ? {} : { approvals_key: textOf(approving) }),
      ...(shared === undefined ? {} : { configuration: shared }),
    }
  }
}

function textOf(key: Uint8Array): string {
  return Buffer.from(key).toString('base64')
}
