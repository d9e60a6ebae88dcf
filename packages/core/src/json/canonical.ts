/** JSON text with sorted keys and without undefined members, so that equal values give equal text. */
export function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map((item) => canonicalJson(item ?? null)).join(',')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null'
  const record = value as Record<string, unknown>
  let text = ''
  for (const key of Object.keys(record).sort()) {
    if (record[key] === undefined) continue
    text += `${text === '' ? '' : ','}${JSON.stringify(key)}:${canonicalJson(record[key])}`
  }
  return `{${text}}`
}

/** SHA-256 of a value's canonical text, in hex. */
export function digestOf(value: unknown): string {
  return sha256(canonicalJson(value))
}

/**
 * SHA-256 of a text or bytes, in hex. `node:crypto` takes longer to load than a short command takes to run, so it is loaded by
 * the first hash and not with this module.
 */
export function sha256(text: string | Uint8Array): string {
  return process.getBuiltinModule('node:crypto').hash('sha256', text, 'hex')
}
