/** A value that is created once, on first use. */
export interface Lazy<T> {
  get(): Promise<T>
  /** The value, if it was created. */
  readonly loaded: T | undefined
}

export function lazily<T>(make: () => Promise<T>): Lazy<T> {
  let making: Promise<T> | undefined
  let loaded: T | undefined
  return {
    async get() {
      making ??= make()
      loaded = await making
      return loaded
    },
    get loaded() {
      return loaded
    },
  }
}
