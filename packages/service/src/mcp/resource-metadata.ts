import type { IncomingMessage } from 'node:http'
import { ToolError } from '@gantry/contract'
import { json, problem } from '../http/answer.ts'
import type { Mount } from '../http/handle-request.ts'

/** What clients need to know to obtain a token. */
export interface ResourceSettings {
  /** Where the endpoint is for those outside, when that is not the address that they ask, because of a proxy. */
  readonly url?: string | undefined
  /** The issuers whose tokens are accepted now; without any the metadata is not served. */
  readonly issuers: () => readonly string[]
  /** What those need who may use it. */
  readonly permission?: string | undefined
}

const wellKnown = '/.well-known/oauth-protected-resource'

/** The documents of RFC 9728, at the address that belongs to `/mcp` and at the one for the whole server. */
export function resourceMounts(settings: ResourceSettings): readonly Mount[] {
  return [`${wellKnown}/mcp`, wellKnown].map((path) => ({
    path,
    async handle({ request }) {
      const issuers = settings.issuers()
      if (issuers.length === 0) return problem(new ToolError('NOT_FOUND', 'Tokens of no issuer are taken here.'))
      if (request.method !== 'GET' && request.method !== 'HEAD') {
        return problem(new ToolError('NOT_FOUND', 'This takes GET, HEAD.'), 405, { allow: 'GET, HEAD' })
      }
      const resource = resourceUrl(settings, request)
      if (resource === null) return problem(new ToolError('PAYLOAD_INVALID', 'The Host of the request is no address.'))
      return json({
        resource: settings.url ?? resource.href,
        authorization_servers: issuers,
        bearer_methods_supported: ['header'],
        resource_name: 'Gantry',
        ...(settings.permission === undefined ? {} : { scopes_supported: [settings.permission] }),
      })
    },
  }))
}

/** The value of `WWW-Authenticate` for a refused request, or undefined when a credential would not help. */
export function challengeOf(error: unknown, settings: ResourceSettings, request: IncomingMessage): string | undefined {
  if (!ToolError.is(error)) return undefined
  const url = resourceUrl(settings, request)
  const metadata = url === null || settings.issuers().length === 0 ? [] : [`resource_metadata="${metadataOf(url)}"`]
  const scope = settings.permission === undefined ? [] : [`scope="${settings.permission}"`]
  if (error.code === 'DENIED') return ['Bearer error="insufficient_scope"', ...scope, ...metadata].join(', ')
  if (error.code !== 'UNAUTHENTICATED') return undefined
  const shown = request.headers.authorization === undefined ? [] : ['error="invalid_token"']
  return ['Bearer realm="gantry"', ...shown, ...scope, ...metadata].join(', ')
}

function metadataOf({ protocol, host, pathname }: URL): string {
  return `${protocol}//${host}${wellKnown}${pathname}`
}

/** The address of the endpoint: the one that is configured, or else the one that was asked; null when that is none. */
function resourceUrl({ url }: ResourceSettings, { headers, socket }: IncomingMessage): URL | null {
  return URL.parse(url ?? `${'encrypted' in socket ? 'https' : 'http'}://${headers.host ?? 'localhost'}/mcp`)
}
