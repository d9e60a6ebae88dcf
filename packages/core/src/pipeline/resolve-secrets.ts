import { ToolError } from '@gantry/contract'
import type { ToolContext } from '../backends/backend.ts'
import { shortestSecret } from '../json/redact.ts'
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
  const value = await fetchSecret(run, name)
  run.conceal([value])
  return value
}

async function fetchSecret(run: Run, name: string): Promise<string> {
  const { request, ports, tool } = run
  try {
    const source = { tool: tool?.entry.id ?? request.tool, identity: request.identity, signal: run.signal }
    const value = await run.within(Promise.resolve(ports.secrets.get(name, source)))
    if (typeof value === 'string' && value.length >= shortestSecret) return value
  } catch (error) {
    if (run.stopped !== undefined) throw run.stopped
    throw new ToolError('SECRET_UNAVAILABLE', `The secret ${name} could not be read.`, { cause: nameOnly(error) })
  }
  throw new ToolError('SECRET_UNAVAILABLE', `There is no secret ${name} of at least ${shortestSecret} characters.`)
}

/** A source's error text may quote the secret, so only its name goes on. */
function nameOnly(error: unknown): Error {
  return new Error(error instanceof Error ? error.name : typeof error)
}
