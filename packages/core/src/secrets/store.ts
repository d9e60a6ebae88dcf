import { ToolError } from '@gantry/contract'
import { whileLocked } from '../files/private-file.ts'
import { shortestSecret } from '../json/secret-forms.ts'
import { isSecretName } from './secret.ts'
import type { StoreKey } from './store-key.ts'
import { type OpenStore, openRecord, sealRecord, Vault, type VaultOptions } from './vault.ts'

export interface SecretStoreOptions extends VaultOptions {
  /** Creates an empty store when there is no file. */
  readonly create?: boolean
}

/**
 * Manages secrets in one encrypted file; tools read them through `encryptedSecrets`.
 * - Concurrency: writers are serialized, also across processes; readers never see a partial change.
 * - Errors: SECRET_UNAVAILABLE for a wrong key or a modified file, CONFIG_INVALID for a missing key or store.
 */
export interface SecretStore {
  /** Names in alphabetical order. */
  list(): Promise<readonly string[]>
  get(name: string): Promise<string | undefined>
  /** Sets or replaces a secret; INPUT_INVALID for an invalid name or value. */
  set(name: string, value: string, signal?: AbortSignal): Promise<void>
  /** Returns whether the secret existed. */
  remove(name: string, signal?: AbortSignal): Promise<boolean>
  /** Re-encrypts all secrets under another key. */
  rekey(key: StoreKey, signal?: AbortSignal): Promise<void>
}

const mostValueBytes = 65_536
const never = new AbortController().signal
const lock = (signal: AbortSignal) => ({ signal, code: 'SECRET_UNAVAILABLE' }) as const

/** Opens a store and verifies its key. */
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

/** One secret; undefined when there is none with this name. Throws SECRET_UNAVAILABLE when it cannot be decrypted. */
export async function readSecret(vault: Vault, name: string): Promise<string | undefined> {
  const { document, key } = await opened(vault)
  const record = document.records.find((each) => each.name === name)
  if (record === undefined) return undefined
  const value = openRecord(document.id, record, key)
  if (value === undefined) throw new ToolError('SECRET_UNAVAILABLE', `The secret ${name} cannot be decrypted.`)
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
  if (!isSecretName(name)) refuse('/name', 'The name of a secret may hold only letters, digits, ".", "_" and "-".')
  if (value.length < shortestSecret) refuse('/value', `A secret must have at least ${shortestSecret} characters.`)
  if (Buffer.byteLength(value) > mostValueBytes) refuse('/value', `A secret must have at most ${mostValueBytes} bytes.`)
  if (!value.isWellFormed()) refuse('/value', 'A secret must be well-formed text, without lone surrogates.')
}

function noStore({ file }: Vault): ToolError {
  return new ToolError('CONFIG_INVALID', `There is no store of secrets ${file}; gantry secrets init makes one.`)
}
