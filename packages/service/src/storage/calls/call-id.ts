import { randomFillSync } from 'node:crypto'

/** Makes ids (UUID version 7) that sort by their time, so that rows written together lie together, and cannot be guessed. */
export function createCallIds(now: () => number = Date.now): () => string {
  const pool = Buffer.alloc(10 * 256)
  let used = pool.length
  return () => {
    if (used === pool.length) {
      randomFillSync(pool)
      used = 0
    }
    const random = pool.toString('hex', used, used + 10)
    used += 10
    const time = now().toString(16).padStart(12, '0')
    const variant = ((Number.parseInt(random.charAt(3), 16) & 3) | 8).toString(16)
    return `${time.slice(0, 8)}-${time.slice(8)}-7${random.slice(0, 3)}-${variant}${random.slice(4, 7)}-${random.slice(7, 19)}`
  }
}

/** When such an id was made, in milliseconds since 1970; undefined for one that was made otherwise. */
export function timeOfCallId(id: string): number | undefined {
  const [, high, low] = /^([0-9a-f]{8})-([0-9a-f]{4})-7/.exec(id) ?? []
  return high === undefined ? undefined : Number.parseInt(`${high}${low}`, 16)
}
