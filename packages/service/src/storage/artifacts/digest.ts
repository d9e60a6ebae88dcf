import { createHash } from 'node:crypto'
import { ToolError } from '@gantry/contract'

const pattern = /^sha256:([0-9a-f]{64})$/

/** The hex digits of a digest that came from anywhere; undefined when it is none, so that nothing else becomes a name. */
export function digitsOf(digest: string): string | undefined {
  return pattern.exec(digest)?.[1]
}

/** Finds the digest of content that comes in pieces. */
export function createDigest(): { add(piece: Uint8Array): void; end(): string } {
  const hash = createHash('sha256')
  return {
    add: (piece) => void hash.update(piece),
    end: () => `sha256:${hash.digest('hex')}`,
  }
}

export function notThere(digest: string, cause?: unknown): ToolError {
  const named = digitsOf(digest) === undefined ? 'that was named by what is no digest' : digest
  return new ToolError('NOT_FOUND', `The artifact store has no file ${named}.`, { cause })
}

export function corrupted(digest: string): ToolError {
  const message = `The file ${digest} in the artifact store holds other bytes than its digest says; restore it.`
  return new ToolError('STORE_UNAVAILABLE', message, { retryable: false })
}
