import { type Identity, ToolError } from '@gantry/contract'
import { canonicalJson } from '@gantry/core/internal/json/canonical'
import type { Visit } from './request-scope.ts'
import type { Arrival, House } from './serve.ts'

/** So many looks in a row may find out nothing, as when the database is away for a moment. */
const mostDoubts = 5

/**
 * Looks now and then, as long as an answer is open, whether the credential of its request would be let in again as the
 * same identity. Once it would not, because it was revoked or is over, or nobody can tell for long, the visit ends.
 */
export function recheck(
  { authenticate, limits }: Pick<House, 'authenticate' | 'limits'>,
  { request, response }: Pick<Arrival, 'request' | 'response'>,
  visit: Visit,
  identity: Identity,
): void {
  // The response of a client who has gone is closed already, and would not tell of it again.
  if (visit.stop.aborted) return
  const { method = '', url: path = '', headers } = request
  const allowed = canonicalJson(identity as never)
  let doubts = 0
  const end = (): void => visit.end(new ToolError('UNAUTHENTICATED', 'The credential of this stream counts no longer.'))
  const look = async (): Promise<void> => {
    try {
      const known = await authenticate({ method, path, headers, again: true }, visit.stop)
      if (canonicalJson(known.identity as never) === allowed) doubts = 0
      else end()
    } catch (error) {
      if (ToolError.is(error) && error.code === 'UNAUTHENTICATED') end()
    }
  }
  const timer = setInterval(() => {
    doubts += 1
    if (doubts > mostDoubts) end()
    else void look()
  }, limits.recheckMs)
  response.once('close', () => clearInterval(timer))
}
