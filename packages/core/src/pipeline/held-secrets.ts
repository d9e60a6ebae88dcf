import type { Backend } from '../backends/backend.ts'
import { createRedactor, type Redactor } from '../json/redact.ts'

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
