/** Remembers what is true for a time, of so many at most; whoever was remembered first is forgotten first. */
export interface Expiring<Value> {
  get(key: string): Value | undefined
  set(key: string, value: Value, ms: number): void
  delete(key: string): void
  clear(): void
}

export function createExpiring<Value>(most: number, now: () => number = () => performance.now()): Expiring<Value> {
  const kept = new Map<string, { readonly value: Value; readonly until: number }>()
  return {
    get(key) {
      const found = kept.get(key)
      if (found === undefined) return undefined
      if (found.until > now()) return found.value
      kept.delete(key)
      return undefined
    },
    set(key, value, ms) {
      kept.delete(key)
      const oldest = kept.size < most ? undefined : kept.keys().next().value
      if (oldest !== undefined) kept.delete(oldest)
      kept.set(key, { value, until: now() + ms })
    },
    delete: (key) => void kept.delete(key),
    clear: () => kept.clear(),
  }
}
