import type { Isolation } from '@gantry/contract'

/**
 * Weakest first. A container is held by namespaces too; it stands above them because its root file system is a foreign
 * one and not a part of the host's, so that whoever asks for `namespaces` may get it, and not the other way round.
 */
export const isolations: readonly Isolation[] = ['none', 'wasm', 'namespaces', 'container', 'kernel', 'microvm']

export function isIsolation(value: unknown): value is Isolation {
  return isolations.some((isolation) => isolation === value)
}

/** Whether an isolation is at least as strong as a floor. */
export function meets(isolation: Isolation, floor: Isolation): boolean {
  return isolations.indexOf(isolation) >= isolations.indexOf(floor)
}

/** The stronger of two. */
export function stronger(one: Isolation, other: Isolation): Isolation {
  return meets(one, other) ? one : other
}
