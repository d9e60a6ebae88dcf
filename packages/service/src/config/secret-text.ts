import { ToolError } from '@gantry/contract'

const prefix = 'secret:'

/** A text of the configuration that may name a secret instead of holding it; `use` says what it is for. */
export async function resolveText(text: string, secrets: unknown, use: string): Promise<string> {
  return text.startsWith(prefix) ? secretText(text.slice(prefix.length), secrets, use) : text
}

/** The value of a secret that the service itself needs; SECRET_UNAVAILABLE when there is none. */
export async function secretText(name: string, secrets: unknown, use: string): Promise<string> {
  const source = secrets as { get?(name: string, request: object): Promise<string | undefined> } | undefined
  const signal = AbortSignal.timeout(5_000)
  const value = typeof source?.get === 'function' ? await source.get(name, { signal }) : undefined
  if (value !== undefined) return value
  throw new ToolError('SECRET_UNAVAILABLE', `The secret ${name}, which ${use}, cannot be had.`)
}
