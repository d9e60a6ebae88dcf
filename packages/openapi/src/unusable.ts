/** Why an operation, or a part of it, cannot be taken over; thrown and caught inside `openapi/` only. */
export class Unusable extends Error {
  override readonly name = 'Unusable'
}

/** What `work` gives, or the reason why there is nothing. */
export function attempt<T>(work: () => T): { readonly value: T } | { readonly reason: string } {
  try {
    return { value: work() }
  } catch (error) {
    if (error instanceof Unusable) return { reason: error.message }
    throw error
  }
}
