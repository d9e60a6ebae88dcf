import { randomUUID } from 'node:crypto'

/**
 * Makes ids in the shape of a UUID at the price of a counter: a random front for this executor, a count behind it.
 * They are unique, not secret; a host that needs unguessable ids passes its own.
 */
export function createCallIds(): () => string {
  const front = randomUUID().slice(0, 24)
  let count = 0
  return () => {
    count += 1
    return front + count.toString(16).padStart(12, '0')
  }
}
