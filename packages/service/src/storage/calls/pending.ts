import type { ErrorInfo } from '@gantry/contract'

/**
 * Whether an outcome only says that a person must decide first, so that it is no end. A tool cannot give such an outcome:
 * what it throws comes from another stage.
 */
export function isPending<T extends { readonly error?: ErrorInfo }>(
  outcome: T,
): outcome is T & { readonly error: ErrorInfo & { readonly details: { readonly expiresMs: number } } } {
  const { error } = outcome
  const asked = error?.code === 'APPROVAL_REQUIRED' && error.stage === 'authorize'
  return asked && typeof error.details?.expiresMs === 'number'
}

/** A key that JSON leaves out and that no tool can name. */
const waiting = Symbol('waiting')

/** Marks what came of an attempt at a chain or a program as no end: one of its calls waits to begin. */
export function asWaiting<T extends object>(outcome: T): T {
  return { ...outcome, [waiting]: true }
}

export function isMarkedWaiting(outcome: object): boolean {
  return waiting in outcome
}
