/** Escapes one key for use in a JSON Pointer. */
export function escapeSegment(key: string): string {
  return key.includes('~') || key.includes('/') ? key.replaceAll('~', '~0').replaceAll('/', '~1') : key
}

/** Undoes `escapeSegment`. */
export function unescapeSegment(segment: string): string {
  return segment.includes('~') ? segment.replaceAll('~1', '/').replaceAll('~0', '~') : segment
}
