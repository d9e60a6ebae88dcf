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
  const last = Array.from({ length: block }, (_, number) => number.toString(16).padStart(3, '0'))
  let count = 0
  let start = front
  return () => {
    count += 1
    const low = count % block
    if (low === 0 || start === front)
      start =
        front +
        Math.floor(count / block)
          .toString(16)
          .padStart(9, '0')
    return start + (last[low] ?? '')
  }
}

/** Ids are counted in blocks, so that most cost one joining of two texts. */
const block = 4_096
