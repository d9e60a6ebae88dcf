import { ToolError } from '@gantry/contract'
import type { JWTVerifyGetKey } from 'jose'

/** Where the public keys of an issuer come from: one address, or what a file held. */
export type IssuerKeys = { readonly url: string } | { readonly set: { readonly keys: readonly object[] } }

const mostBytes = 262_144
const timeoutDuration = 5_000
/** An issuer that does not answer is left alone for so long. */
const restMs = 5_000

/**
 * The keys of an issuer, by their ids. They come from the configured place and nowhere else, whatever a token says: from
 * an address they are fetched when they are needed, kept for ten minutes, and fetched again for an unknown id at most
 * every half a minute. Rejects with STORE_UNAVAILABLE when they cannot be had.
 */
export async function issuerKeys(source: IssuerKeys): Promise<JWTVerifyGetKey> {
  const { createLocalJWKSet, createRemoteJWKSet, customFetch } = await import('jose')
  if ('set' in source) return createLocalJWKSet({ keys: [...source.set.keys] })
  let restUntil = 0
  const get = async (url: string, options: RequestInit): Promise<Response> => {
    if (performance.now() < restUntil) throw unreachable()
    try {
      const response = await fetch(url, { ...options, redirect: 'error' })
      if (response.status === 200) return new Response(await readAtMost(response), { status: 200 })
      await response.body?.cancel()
      throw unreachable()
    } catch (cause) {
      restUntil = performance.now() + restMs
      throw unreachable(cause)
    }
  }
  return createRemoteJWKSet(new URL(source.url), { timeoutDuration, [customFetch]: get })
}

async function readAtMost(response: Response): Promise<Uint8Array<ArrayBuffer>> {
  const pieces: Uint8Array[] = []
  let total = 0
  for await (const piece of response.body ?? []) {
    total += piece.length
    if (total > mostBytes) throw unreachable()
    pieces.push(piece)
  }
  return Buffer.concat(pieces, total)
}

function unreachable(cause?: unknown): ToolError {
  const message = 'The keys of the issuer of this token cannot be fetched; try again in a moment.'
  return new ToolError('STORE_UNAVAILABLE', message, { cause, stage: 'authorize' })
}
