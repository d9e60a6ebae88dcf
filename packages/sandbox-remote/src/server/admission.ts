import { randomBytes } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { RequestRefusal } from '../protocol/refusal.ts'
import { anyInstance, type Claim, clockWindowMs, isGenuine, readClaim, type SigningKey } from '../protocol/signature.ts'

/** A request whose signature is genuine, recent and new. */
export interface Admitted {
  readonly key: SigningKey
  readonly claim: Claim
}

export interface Admission {
  /**
   * Checks the signature of a request before its body is read; the body is compared with `claim.digest` by its reader.
   * Throws AdmissionRefusal.
   */
  admit(request: IncomingMessage): Admitted
}

interface AdmissionOptions {
  readonly keys: readonly SigningKey[]
  readonly instance: string
  /** Milliseconds since 1970. */
  readonly now?: () => number
  /** Most nonces of a key that are remembered in twice the clock window. */
  readonly mostNonces?: number
}

/** About 4,000 requests a second of one key, for as long as a nonce must be remembered. */
const usualNonces = 524_288

/** A refused request, with the key that signed it when its signature is genuine: only then may the answer be signed. */
export class AdmissionRefusal extends RequestRefusal {
  readonly admitted: Admitted | undefined

  constructor(code: ConstructorParameters<typeof RequestRefusal>[0], message: string, admitted?: Admitted) {
    super(code, message)
    this.admitted = admitted
  }
}

export function createAdmission({
  keys,
  instance,
  now = Date.now,
  mostNonces = usualNonces,
}: AdmissionOptions): Admission {
  const byId = new Map(keys.map((key) => [key.id, key]))
  const unused: SigningKey = { id: '', key: randomBytes(32).toString('base64url') }
  const stores = new Map<string, Nonces>(
    keys.map(({ id }) => [id, createNonces({ keepMs: 2 * clockWindowMs, most: mostNonces })]),
  )
  return {
    admit(request) {
      const { method = '', url: path = '', headers } = request
      const claim = readClaim(headers.authorization)
      if (claim === undefined) throw new AdmissionRefusal('UNSIGNED', 'The request is not signed.')
      const key = byId.get(claim.keyId)
      const parts = { ...claim, method, path, authority: headers.host ?? '' }
      // A key that does not exist takes as long to refuse as a wrong signature.
      const genuine = isGenuine(key ?? unused, parts, claim.signature)
      if (key === undefined) throw new AdmissionRefusal('KEY_UNKNOWN', 'The key of the request is not known.')
      if (!genuine) throw new AdmissionRefusal('SIGNATURE_WRONG', 'The signature does not fit the request.')
      const admitted: Admitted = { key, claim }
      const awayMs = Math.abs(now() - claim.created)
      if (awayMs > clockWindowMs) {
        const message = `The time of the request differs from the clock of the host by ${Math.round(awayMs / 1_000)} s; at most ${clockWindowMs / 1_000} s are allowed. Synchronize the clocks.`
        throw new AdmissionRefusal('CLOCK', message, admitted)
      }
      const isReading = method === 'GET' && claim.instance === anyInstance
      if (claim.instance !== instance && !isReading) {
        throw new AdmissionRefusal(
          'INSTANCE_CHANGED',
          'The host was restarted since; nothing of before is left.',
          admitted,
        )
      }
      const use = stores.get(key.id)?.use(claim.nonce, claim.created) ?? 'full'
      // The answer to a replay is not signed: it would be a second answer to one request.
      if (use === 'used') throw new AdmissionRefusal('NONCE_USED', 'The request was sent before.')
      if (use === 'forgotten') {
        const message =
          'The request is older than the nonces that the host remembers: its clock was set back. Synchronize it, and start the host again.'
        throw new AdmissionRefusal('CLOCK', message, admitted)
      }
      if (use === 'full')
        throw new AdmissionRefusal(
          'NONCES_FULL',
          'The nonce store of the host is full for this key; retry later.',
          admitted,
        )
      return admitted
    },
  }
}

/** Remembers which nonces were used, for as long as a request that carries one could be accepted again. */
export interface Nonces {
  /**
   * - `used`: it was seen before.
   * - `full`: nothing can be remembered now, so the request must be refused.
   * - `forgotten`: nonces of this time were dropped, so that it may have been seen; only a clock that was set back brings one.
   */
  use(nonce: string, created: number): 'fresh' | 'used' | 'full' | 'forgotten'
}

export interface NoncesOptions {
  /** How long a nonce must be remembered at least. */
  readonly keepMs: number
  /** Most nonces that are remembered in one such time. */
  readonly most: number
  /** Monotonic milliseconds. */
  readonly now?: () => number
}

/**
 * Two generations: each lives for `keepMs` as the current one and as long as the earlier one. Nothing is dropped before
 * its time; when a generation is full, requests are refused until it ends. Generations end by a monotonic clock and requests
 * name the clock of the machine, which may be set back: the latest time of what was dropped is kept.
 */
export function createNonces({ keepMs, most, now = () => performance.now() }: NoncesOptions): Nonces {
  let [current, earlier] = [newGeneration(), newGeneration()]
  let forgotten = Number.NEGATIVE_INFINITY
  let since = now()
  const turn = (): void => {
    const age = now() - since
    if (age < keepMs) return
    const dropped = age < 2 * keepMs ? [earlier] : [earlier, current]
    forgotten = Math.max(forgotten, ...dropped.map(({ latest }) => latest))
    earlier = age < 2 * keepMs ? current : newGeneration()
    current = newGeneration()
    since = now()
  }
  return {
    use(nonce, created) {
      turn()
      if (current.nonces.has(nonce) || earlier.nonces.has(nonce)) return 'used'
      if (created <= forgotten) return 'forgotten'
      if (current.nonces.size >= most) return 'full'
      current.nonces.add(nonce)
      current.latest = Math.max(current.latest, created)
      return 'fresh'
    },
  }
}

interface Generation {
  readonly nonces: Set<string>
  /** The latest time that a request of it named. */
  latest: number
}

function newGeneration(): Generation {
  return { nonces: new Set(), latest: Number.NEGATIVE_INFINITY }
}
