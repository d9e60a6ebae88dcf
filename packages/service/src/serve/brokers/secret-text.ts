import { ToolError } from '@gantry/contract'

const prefix = 'secret:'

/** A text of the configuration that may name a secret instead of holding it. */
export async function resolveText(text: string, secrets: unknown, path: string): Promise<string> {
  if (!text.startsWith(prefix)) return text
  const name = text.slice(prefix.length)
  const source = secrets as { get?(name: string, request: object): Promise<string | undefined> } | undefined
  const signal = AbortSignal.timeout(5_000)
  const value = typeof source?.get === 'function' ? await source.get(name, { signal }) : undefined
  if (value !== undefined) return value
  throw new ToolError('SECRET_UNAVAILABLE', `The secret ${name}, which ${path} names, cannot be had.`)
}
