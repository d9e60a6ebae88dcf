import { isObject } from '@gantry/contract/internal/json'

/** JSON text with sorted keys and without undefined members: equal values give equal text. */
export function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map((item) => canonicalJson(item ?? null)).join(',')}]`
  if (!isObject(value)) return JSON.stringify(value) ?? 'null'
  let text = ''
  for (const key of Object.keys(value).sort()) {
    if (value[key] === undefined) continue
    text += `${text === '' ? '' : ','}${JSON.stringify(key)}:${canonicalJson(value[key])}`
  }
  return `{${text}}`
}

/** SHA-256 of a value's canonical text, in hex. */
export function digestOf(value: unknown): string {
  return sha256(canonicalJson(value))
}

/**
 * SHA-256 of a text or bytes, in hex. `node:crypto` takes longer to load than a short command takes to run, so the first
 * hash loads it, not this module.
 */
export function sha256(text: string | Uint8Array): string {
  return process.getBuiltinModule('node:crypto').hash('sha256', text, 'hex')
}
