import type { SecretSource } from './secret.ts'

/**
 * The first source that knows a name gives its value. A source that fails ends the search: to go on would quietly use
 * another value than the one that was meant.
 */
export function firstOf(...sources: readonly SecretSource[]): SecretSource {
  return {
    async get(name, request) {
      for (const source of sources) {
        const value = await source.get(name, request)
        if (value !== undefined) return value
      }
      return undefined
    },
  }
}
