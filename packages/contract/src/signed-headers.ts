const named: ReadonlySet<string> = new Set(['idempotency-key', 'last-event-id', 'range', 'if-range', 'if-none-match'])

/**
 * Whether a header, by its name in lower case, changes what a request does or which answer it gets. A signed request covers
 * each of these that it has: a proxy that adds, changes or drops one would otherwise send another request than was signed.
 */
export function isSignedHeader(name: string): boolean {
  return named.has(name) || name.startsWith('mcp-')
}
