import { ToolError } from '@gantry/contract'
import { whileLocked } from '../files/lock.ts'
import { shortestSecret } from '../json/secret-forms.ts'
import { isSecretName } from './secret.ts'
import { openRecord, sealRecord } from './store-document.ts'
import type { StoreKey } from './store-key.ts'
import { type OpenStore, Vault, type VaultOptions } from './vault.ts'

export interface SecretStoreOptions extends VaultOptions {
  /** Makes an empty store when there is no file. */
  readonly create?: boolean
}

/**
 * Secrets in one encrypted file, to be kept up; tools get theirs through `encryptedSecrets`.
 * - Concurrency: writers take turns, over processes too; readers never see half a change.
 * - Errors: SECRET_UNAVAILABLE when the key is wrong or the file was changed, CONFIG_INVALID when there is no key or no store.
 */
export interface SecretStore {
  /** Names, in their order. */
  list(): Promise<readonly string[]>
  get(name: string): Promise<string | undefined>
  /** Sets a secret or replaces it; INPUT_INVALID for a name or a value that cannot be one. */
  set(name: string, value: string, signal?: AbortSignal): Promise<void>
  /** Whether there was one. */
  remove(name: string, signal?: AbortSignal): Promise<boolean>
  /** Encrypts everything anew under another key. */
  rekey(key: StoreKey, signal?: AbortSignal): Promise<void>
}

const mostValueBytes = 65_536
const never = new AbortController().signal
const lock = (signal: AbortSignal) => ({ signal, code: 'SECRET_UNAVAILABLE' }) as const

/** Opens a store and tries its key. */
export async function openSecretStore({ create = false, ...options }: SecretStoreOptions): Promise<SecretStore> {
  const vault = new Vault(options)
  if ((await vault.read()) === undefined) {
    if (!create) throw noStore(vault)
    await whileLocked(vault.file, lock(never), async () => {
      if ((await vault.read()) === undefined) await vault.write(await vault.fresh())
    })
  }
  const change = (signal: AbortSignal, work: (store: OpenStore) => Promise<void>): Promise<void> =>
    whileLocked(vault.file, lock(signal), async () => work(await opened(vault)))

  return {
    list: async () => (await opened(vault)).document.records.map(({ name }) => name).sort(),
    get: (name) => readSecret(vault, name),
    async set(name, value, signal = never) {
      checkSecret(name, value)
      await change(signal, (store) => vault.write(withSecret(store, name, value)))
    },
    async remove(name, signal = never) {
      let found = false
      await change(signal, async ({ document, key }) => {
        const records = document.records.filter((record) => record.name !== name)
        found = records.length < document.records.length
        if (found) await vault.write({ document: { ...document, records }, key })
      })
      return found
    },
    rekey: (key, signal = never) => change(signal, (store) => vault.rekey(store, key)),
  }
}

/** One secret; undefined when there is none of this name, SECRET_UNAVAILABLE when it cannot be had. */
export async function readSecret(vault: Vault, name: string): Promise<string | undefined> {
  const { document, key } = await opened(vault)
  const record = document.records.find((each) => each.name === name)
  if (record === undefined) return undefined
  const value = openRecord(document.id, record, key)
  if (value === undefined) throw new ToolError('SECRET_UNAVAILABLE', `The secret ${name} does not open.`)
  return value
}

async function opened(vault: Vault): Promise<OpenStore> {
  const store = await vault.read()
  if (store === undefined) throw noStore(vault)
  return store
}

function withSecret({ document, key }: OpenStore, name: string, value: string): OpenStore {
  const before = document.records.find((record) => record.name === name)
  const record = sealRecord(document.id, name, (before?.version ?? 0) + 1, value, key)
  const others = document.records.filter((each) => each !== before)
  return { document: { ...document, records: [...others, record] }, key }
}

function checkSecret(name: string, value: string): void {
  const refuse = (path: string, text: string): never => {
    throw new ToolError('INPUT_INVALID', text, { details: { issues: [{ path, message: text }] } })
  }
  if (!isSecretName(name)) refuse('/name', 'The name of a secret has letters, digits, ".", "_" and "-", and no more.')
  if (value.length < shortestSecret) refuse('/value', `A secret has at least ${shortestSecret} characters.`)
  if (Buffer.byteLength(value) > mostValueBytes) refuse('/value', `A secret has at most ${mostValueBytes} bytes.`)
  if (!value.isWellFormed()) refuse('/value', 'A secret is text, without half characters.')
}

function noStore({ file }: Vault): ToolError {
  return new ToolError('CONFIG_INVALID', `There is no store of secrets ${file}; gantry secrets init makes one.`)
}
