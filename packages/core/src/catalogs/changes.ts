import type { CatalogChange } from './catalog.ts'

type Listener = (change: CatalogChange) => void

/** Tells listeners about changes; what a listener throws goes to `report` and stops nobody else. */
export class Changes {
  readonly #listeners = new Set<Listener>()
  readonly #report: (error: unknown) => void

  constructor(report: (error: unknown) => void) {
    this.#report = report
  }

  /** The same function subscribed twice is two subscriptions. */
  subscribe(listener: Listener): () => void {
    const own: Listener = (change) => listener(change)
    this.#listeners.add(own)
    return () => {
      this.#listeners.delete(own)
    }
  }

  /** Whether anybody listens. */
  get heard(): boolean {
    return this.#listeners.size > 0
  }

  emit(change: CatalogChange): void {
    for (const listener of [...this.#listeners]) {
      try {
        const returned: unknown = listener(change)
        if (returned instanceof Promise) returned.catch(this.#report)
      } catch (error) {
        this.#report(error)
      }
    }
  }
}
