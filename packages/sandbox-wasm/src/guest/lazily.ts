/** Something that is made when it is first asked for, and once. */
export interface Lazy<T> {
  get(): Promise<T>
  /** What was made, if it was. */
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
