/** Whether a value holds no whole number that lost digits when it was read, such as the largest int64 as a limit. */
export function isExact(value: unknown): boolean {
  if (typeof value === 'number') return !Number.isInteger(value) || Number.isSafeInteger(value)
  return typeof value !== 'object' || value === null || Object.values(value).every(isExact)
}
