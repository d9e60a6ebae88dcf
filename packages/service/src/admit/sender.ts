import { type Identity, ToolError } from '@gantry/contract'
import type { Decoded } from '../codecs/codec.ts'
import type { Message } from '../transports/message.ts'
import type { Sessions } from './session-identity.ts'

/** How the senders of one source are known. */
export type SenderRule =
  /** All of them are the same one, whatever they say. */
  | { readonly kind: 'fixed'; readonly identity: Identity }
  /** By their session; with `tenants`, only those who belong to one of these may speak over this source. */
  | { readonly kind: 'sessions'; readonly sessions: Sessions; readonly tenants?: readonly string[] }

/**
 * Tells who sent a message. What the message says of users, tenants and roles is not looked at.
 * - Errors: UNAUTHENTICATED, which is final; STORE_UNAVAILABLE when it cannot be known now, and the message must be left
 *   where it is; CANCELLED when the signal aborts.
 */
export interface Senders {
  identify(decoded: Decoded, message: Pick<Message, 'source'>, signal: AbortSignal): Promise<Identity>
}

/** `rules` by topic or stream; a source that is not in there has no senders. */
export function createSenders(rules: ReadonlyMap<string, SenderRule>): Senders {
  return {
    async identify(decoded, { source }, signal) {
      const rule = rules.get(source)
      if (rule === undefined) throw refused('Nobody may send calls over this source.')
      if (rule.kind === 'fixed') return rule.identity
      const session = decoded.kind === 'call' ? decoded.session : undefined
      if (session === undefined) throw refused('The request names no session.')
      const identity = await rule.sessions.identify(session, signal)
      if (rule.tenants !== undefined && !rule.tenants.includes(identity.tenant)) {
        throw refused('The session is of a tenant who does not send over this source.')
      }
      return identity
    },
  }
}

function refused(message: string): ToolError {
  return new ToolError('UNAUTHENTICATED', message)
}
