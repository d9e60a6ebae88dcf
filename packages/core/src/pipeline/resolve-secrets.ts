import { ToolError } from '@gantry/contract'
import type { ToolContext } from '../backends/backend.ts'
import { shortestSecret } from '../json/secret-forms.ts'
import type { SecretRequest, SecretSource } from '../secrets/secret.ts'
import type { Run } from './run.ts'

/** Fetches the secrets a tool declares, at the last moment, and from here on keeps them out of everything that leaves. */
export async function resolveSecrets(run: Run, names: readonly string[]): Promise<ToolContext['secrets']> {
  const values = new Map<string, string>()
  for (const name of names) values.set(name, await resolveSecret(run, name))
  const secrets: { [name: string]: string } = Object.create(null)
  for (const [name, value] of values) Object.defineProperty(secrets, name, { value, enumerable: false })
  return Object.freeze(secrets)
}

/** Fetches one secret for the caller of this run, and keeps it out of everything that leaves. */
export async function resolveSecret(run: Run, name: string): Promise<string> {
  const { request, ports, tool } = run
  const asking = { tool: tool?.entry.id ?? request.tool, identity: request.identity, signal: run.signal }
  const value = await run.within(fetchSecret(ports.secrets, name, asking))
  run.conceal([value])
  return value
}

/** Asks a source for a value that is long enough to be found again; SECRET_UNAVAILABLE when there is none. */
export async function fetchSecret(source: SecretSource, name: string, request: SecretRequest): Promise<string> {
  let value: unknown
  try {
    value = await source.get(name, request)
  } catch (error) {
    request.signal.throwIfAborted()
    throw unreadable(name, error)
  }
  if (typeof value === 'string' && value.length >= shortestSecret) return value
  throw new ToolError('SECRET_UNAVAILABLE', `There is no secret ${name} of at least ${shortestSecret} characters.`)
}

/** Our own sources say what to do about it; the text of any other error may quote the secret, so only its name goes on. */
function unreadable(name: string, error: unknown): ToolError {
  if (ToolError.is(error) && (error.code === 'SECRET_UNAVAILABLE' || error.code === 'CONFIG_INVALID')) {
    return new ToolError('SECRET_UNAVAILABLE', error.message)
  }
  const cause = new Error(error instanceof Error ? error.name : typeof error)
  return new ToolError('SECRET_UNAVAILABLE', `The secret ${name} could not be read.`, { cause })
}
