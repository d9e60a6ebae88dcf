import { isText } from '@gantry/contract/internal/json'
import { onAbort } from '../resilience/abort.ts'

/** Secrets by name, or a source with `get`. */
export type SecretValues = object

/** How a setting names a secret. */
const prefix = 'secret:'
const lookupMs = 5_000

/** The name in `secret:name`; undefined for any other text. */
export function secretNameOf(setting: string): string | undefined {
  return setting.length > prefix.length && setting.startsWith(prefix) ? setting.slice(prefix.length) : undefined
}

/** Finds a secret that this process itself needs, for no tool and no caller; undefined when there is none. */
export async function namedSecret(secrets: SecretValues | undefined, name: string): Promise<string | undefined> {
  const get = secrets !== undefined && 'get' in secrets ? secrets.get : undefined
  if (typeof get === 'function') {
    const own = new AbortController()
    const late = setTimeout(
      () => own.abort(new Error(`The source of secrets did not answer in ${lookupMs} ms.`)),
      lookupMs,
    )
    const { promise, reject } = Promise.withResolvers<never>()
    const leave = onAbort(own.signal, () => reject(own.signal.reason))
    try {
      return await Promise.race([promise, get.call(secrets, name, { signal: own.signal })])
    } finally {
      clearTimeout(late)
      leave()
    }
  }
  const values: { readonly [name: string]: unknown } = { ...secrets }
  const value = Object.hasOwn(values, name) ? values[name] : undefined
  return isText(value) ? value : undefined
}
