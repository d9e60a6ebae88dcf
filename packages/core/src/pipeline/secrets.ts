import { ToolError } from '@gantry/contract'
import type { Backend, ToolContext } from '../backends/backend.ts'
import { createRedactor, type Redactor } from '../json/redact.ts'
import { shortestSecret } from '../json/secret-forms.ts'
import type { SecretRequest, SecretSource } from '../secrets/secret.ts'
import type { Run } from './run.ts'

/** Secrets in the connections of backends, which may come back in the answer to any of their calls. */
export interface HeldSecrets {
  of(backend: Backend): readonly string[] | undefined
  /** Takes them out; undefined while there are none. Made once for each change, because making it is costly. */
  redactor(backend: Backend): Redactor | undefined
  /** One that the host named stays for good; a token that came and will be renewed may make way for newer ones. */
  add(backend: Backend, value: string, kind: 'named' | 'passing'): void
}

/** Passing values and characters kept for one backend; a token that is renewed must not make the search ever longer. */
const mostHeld = 64
const mostCharacters = 65_536

export function createHeldSecrets(): HeldSecrets {
  const held = new Map<Backend, readonly string[]>()
  const named = new Map<Backend, readonly string[]>()
  const passing = new Map<Backend, readonly string[]>()
  const redactors = new Map<Backend, Redactor>()
  return {
    of: (backend) => (held.size === 0 ? undefined : held.get(backend)),
    redactor(backend) {
      const values = held.get(backend)
      if (values === undefined) return undefined
      const made = redactors.get(backend) ?? createRedactor({ values, keys: false })
      redactors.set(backend, made)
      return made
    },
    add(backend, value, kind) {
      const list = kind === 'named' ? named : passing
      const known = list.get(backend) ?? []
      if (known.includes(value)) return
      list.set(backend, kind === 'named' ? [...known, value] : newest([...known, value]))
      redactors.delete(backend)
      held.set(backend, [...(named.get(backend) ?? []), ...(passing.get(backend) ?? [])])
    },
  }
}

/** The newest values within what is kept; the very newest always. */
function newest(values: readonly string[]): readonly string[] {
  const kept: string[] = []
  let characters = 0
  for (const value of values.toReversed()) {
    characters += value.length
    if (kept.length > 0 && (kept.length >= mostHeld || characters > mostCharacters)) break
    kept.unshift(value)
  }
  return kept
}

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
