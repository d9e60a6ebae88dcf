import { ToolError } from '@gantry/contract'
import type { JWTVerifyGetKey } from 'jose'
import type { IssuerKeys } from '../../config/authentication-settings.ts'

export interface IssuerKeysOptions {
  readonly now: () => number
  /** Hears what came of every time that they were fetched: nothing when they are there, else why not. */
  readonly told: (fault: string | undefined) => void
}

const mostBytes = 262_144
const timeoutDuration = 5_000
/** An issuer that does not answer is left alone for so long. */
const restMs = 5_000

/**
 * The keys of an issuer, by their ids. They come from the configured place and nowhere else, whatever a token says: from
 * an address they are fetched when they are needed, kept for ten minutes, and fetched again for an unknown id at most
 * every half a minute. Rejects with STORE_UNAVAILABLE when they cannot be had, also when what is there is something else.
 */
export async function issuerKeys(source: IssuerKeys, { now, told }: IssuerKeysOptions): Promise<JWTVerifyGetKey> {
  const { createLocalJWKSet, createRemoteJWKSet, customFetch } = await import('jose')
  if ('set' in source) return createLocalJWKSet({ keys: [...source.set.keys] })
  let restUntil = 0
  const get = async (url: string, options: RequestInit): Promise<Response> => {
    const restLeft = restUntil - now()
    // A clock that was put back must not make the rest longer.
    if (restLeft > 0 && restLeft <= restMs) throw unreachable()
    try {
      const text = await read(url, options)
      createLocalJWKSet(parsed(text))
      told(undefined)
      return new Response(text, { status: 200 })
    } catch (cause) {
      restUntil = now() + restMs
      told(faultOf(cause))
      throw unreachable(cause)
    }
  }
  return createRemoteJWKSet(new URL(source.url), { timeoutDuration, [customFetch]: get })
}

/** Something that we can say of an issuer without repeating what it sent. */
class Fault extends Error {}

async function read(url: string, options: RequestInit): Promise<string> {
  const response = await fetch(url, { ...options, redirect: 'manual' })
  if (response.status !== 200) {
    await response.body?.cancel()
    throw new Fault(`It answers with the status ${response.status}.`)
  }
  const pieces: Uint8Array[] = []
  let total = 0
  for await (const piece of response.body ?? []) {
    total += piece.length
    if (total > mostBytes) throw new Fault(`It answers with more than ${mostBytes} bytes.`)
    pieces.push(piece)
  }
  return Buffer.concat(pieces, total).toString()
}

function parsed(text: string): { keys: object[] } {
  try {
    return JSON.parse(text)
  } catch {
    throw new Fault('What it answers is no set of keys.')
  }
}

/** Messages of others may hold what was answered; their names and codes do not. */
function faultOf(error: unknown): string {
  if (error instanceof Fault) return error.message
  const { name, code, cause } = (error ?? {}) as { name?: unknown; code?: unknown; cause?: { code?: unknown } | null }
  if (code === 'ERR_JWKS_INVALID') return 'What it answers is no set of keys.'
  return `It cannot be reached: ${String(cause?.code ?? name)}.`
}

function unreachable(cause?: unknown): ToolError {
  const message = 'The keys of the issuer of this token cannot be fetched; try again in a moment.'
  return new ToolError('STORE_UNAVAILABLE', message, { cause, stage: 'authorize' })
}
