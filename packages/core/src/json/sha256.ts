/**
 * SHA-256 of a text or bytes, in hex. `node:crypto` takes longer to load than a short command takes to run, so it is loaded by
 * the first hash and not with this module.
 */
export function sha256(text: string | Uint8Array): string {
  return process.getBuiltinModule('node:crypto').hash('sha256', text, 'hex')
}
