import { ToolError } from '@gantry/contract'

const longest = 2_048

/**
 * The URL of a callback as its caller gave it, or PAYLOAD_INVALID. Only its form is judged; where it leads is judged by
 * the egress guard when something is sent there.
 */
export function checkCallbackUrl(text: unknown): URL {
  if (typeof text !== 'string' || text.length > longest) throw wrong(`must be a URL of at most ${longest} characters`)
  // What URL parsing would leave out or turn into something else is not what its writer meant.
  if (/[^\x21-\x7e]|\\/.test(text)) throw wrong('must be written in printable ASCII without spaces and backslashes')
  const url = URL.parse(text)
  if (url === null) throw wrong('must be a URL')
  if (url.protocol !== 'https:' && url.protocol !== 'http:') throw wrong('must begin with https:// or http://')
  if (url.username !== '' || url.password !== '') throw wrong('must not hold a user or a password')
  return url
}

function wrong(message: string): ToolError {
  const issues = [{ path: '/callback', message }]
  return new ToolError('PAYLOAD_INVALID', `The callback ${message}.`, { details: { issues } })
}
