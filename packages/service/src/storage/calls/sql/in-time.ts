/**
 * Whether a statement starts before the time in its parameter `$n`, in milliseconds since 1970; always, when that is null.
 * A server that stood still starts a statement long after it was sent, when its client may have given up waiting: what it
 * leases then would belong to a process that does not know of it. `now()` is the time of that start.
 */
export function inTime(n: number): string {
  return `($${n}::float8 is null or now() <= to_timestamp($${n}::float8 / 1000))`
}
