/** The official client library, loaded when the first server is needed: it is too large for everybody to wait for. */
export type Sdk = typeof import('@modelcontextprotocol/client')

export function loadSdk(): Promise<Sdk> {
  return import('@modelcontextprotocol/client')
}
