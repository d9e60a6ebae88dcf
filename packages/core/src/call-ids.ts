/**
 * Makes ids in the shape of a UUID at the price of a counter: a random front for this executor, a count behind it.
 * They are unique, not secret, so the engine's own randomness is enough; a host that needs unguessable ids passes them.
 */
export function createCallIds(random: () => number = Math.random): () => string {
  const digits = (count: number): string => {
    const value = Math.floor(random() * 16 ** count)
    return value.toString(16).padStart(count, '0')
  }
  const front = `${digits(8)}-${digits(4)}-4${digits(3)}-8${digits(3)}-`
  let count = 0
  return () => {
    count += 1
    return front + count.toString(16).padStart(12, '0')
  }
}
