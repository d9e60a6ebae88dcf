import type { OAuthDiscoveryState, StoredOAuthClientInformation, StoredOAuthTokens } from '@modelcontextprotocol/client'
import type { TokenStore } from './options.ts'

/** What a client remembers between two requests for a token. */
export interface Remembered {
  readonly client: StoredOAuthClientInformation
  readonly tokens: StoredOAuthTokens
  readonly discovery: OAuthDiscoveryState
}

/** Typed access to a TokenStore; a value that does not parse counts as absent. */
export interface TokenMemory {
  read<Key extends keyof Remembered>(key: Key): Promise<Remembered[Key] | undefined>
  write<Key extends keyof Remembered>(key: Key, value: Remembered[Key]): Promise<void>
  forget(key: keyof Remembered): Promise<void>
}

/** Keeps the values of one server apart from those of others in the same store. */
export function tokenMemory(store: TokenStore, server: string): TokenMemory {
  const place = (key: string): string => `${server}/${key}`
  return {
    async read<Key extends keyof Remembered>(key: Key) {
      const text = await store.get(place(key))
      if (text === undefined) return undefined
      try {
        return JSON.parse(text) as Remembered[Key]
      } catch {
        return undefined
      }
    },
    write: (key, value) => store.set(place(key), JSON.stringify(value)),
    forget: (key) => store.delete(place(key)),
  }
}

/** Forgets everything with the process. */
export function memoryTokenStore(): TokenStore {
  const values = new Map<string, string>()
  return {
    get: async (key) => values.get(key),
    set: async (key, value) => void values.set(key, value),
    delete: async (key) => void values.delete(key),
  }
}
