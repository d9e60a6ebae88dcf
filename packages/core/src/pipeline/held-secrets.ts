import type { Backend } from '../backends/backend.ts'

/** Secrets in the connections of backends, which may come back in the answer to any of their calls. */
export interface HeldSecrets {
  of(backend: Backend): readonly string[] | undefined
  add(backend: Backend, value: string): void
}

/** Values kept for one backend; a token that is renewed every minute must not make the search ever longer. */
const mostHeld = 64

export function createHeldSecrets(): HeldSecrets {
  const held = new Map<Backend, readonly string[]>()
  return {
    of: (backend) => (held.size === 0 ? undefined : held.get(backend)),
    add(backend, value) {
      const known = held.get(backend) ?? []
      if (!known.includes(value)) held.set(backend, [...known.slice(1 - mostHeld), value])
    },
  }
}
