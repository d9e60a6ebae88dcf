import type { SecretSource } from './secret.ts'

/**
 * Returns the value of the first source that has the name. A source that fails ends the search: continuing could
 * silently use another value than the intended one.
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
