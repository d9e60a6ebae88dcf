import { ToolError } from '@gantry/contract'
import type { BackendHost } from '@gantry/core/internal/backends/backend'
import type { AuthProvider } from '@modelcontextprotocol/client'
import { boundedResponse } from './bounded-response.ts'
import { memoryTokenStore, oauthClient, type TokenMemory, tokenMemory } from './oauth-client.ts'
import type { McpOAuth } from './options.ts'
import { loadSdk, type Sdk } from './sdk.ts'
import { fillSecrets } from './settings.ts'

/** What a server said that a token must be good for. */
export interface Challenge {
  readonly scope?: string | undefined
  readonly resourceMetadataUrl?: URL | undefined
}

/** Gets tokens for one server and shows them to it alone. */
export interface Authorizer {
  readonly provider: AuthProvider
  /** Gets a token that is good for more; false when the server wants nothing that the token does not have already. */
  stepUp(challenge: Challenge): Promise<boolean>
}

export interface AuthorizerOptions {
  readonly server: string
  readonly url: URL
  readonly oauth: McpOAuth
  readonly host: BackendHost
  /** Through the guard, as everything that discovery may lead to. */
  readonly fetch: typeof fetch
  /** Ends with the backend, and not with one connection: a person may need longer than that. */
  readonly life: AbortSignal
}

/** No document of an authorization server is this large. */
const mostBytes = 1_048_576
/** No token is; each is looked for in every answer. */
const longestToken = 16_384

/**
 * Discovery, registration, the check of issuer and resource and the exchange are the SDK's; this decides when they
 * run, one at a time, and asks the person. Addresses for the person are http or https and are never opened here.
 */
export function createAuthorizer(options: AuthorizerOptions): Authorizer {
  const { server, oauth } = options
  // By address, because a token for one server must not be shown to whoever has its name next.
  const { origin, pathname } = options.url
  const memory = tokenMemory(oauth.store ?? memoryTokenStore(), `${server} ${origin}${pathname}`)
  let scope: string | undefined
  let running: Promise<void> | undefined
  const authorize = (challenge: Challenge, force: boolean): Promise<void> => {
    running ??= obtain(options, memory, challenge, force)
      .catch((cause: unknown) => {
        throw ToolError.is(cause) ? cause : refused(`No token could be got for the MCP server ${server}.`, cause)
      })
      .finally(() => {
        running = undefined
      })
    return running
  }
  return {
    provider: {
      token: async () => (await memory.read('tokens'))?.access_token,
      async onUnauthorized({ response }) {
        const sdk = await loadSdk()
        const asked = sdk.extractWWWAuthenticateParams(response)
        scope = sdk.computeScopeUnion(scope, asked.scope)
        await authorize({ ...asked, scope }, false)
      },
    },
    async stepUp(challenge) {
      const sdk = await loadSdk()
      const held = (await memory.read('tokens'))?.scope
      scope = sdk.computeScopeUnion(scope, held, challenge.scope)
      if (!sdk.isStrictScopeSuperset(scope, held)) return false
      await authorize({ ...challenge, scope }, true)
      return true
    },
  }
}

/** One request for a token, from discovery to the token in memory. */
async function obtain(
  options: AuthorizerOptions,
  memory: TokenMemory,
  { scope, resourceMetadataUrl }: Challenge,
  force: boolean,
): Promise<void> {
  const { url, oauth, life } = options
  const sdk = await loadSdk()
  const client = oauthClient({ sdk, oauth, memory, ...(await secretsOf(options)) })
  const request = {
    serverUrl: url,
    fetchFn: authFetch(options),
    forceReauthorization: force,
    ...(scope === undefined ? {} : { scope }),
    ...(resourceMetadataUrl === undefined ? {} : { resourceMetadataUrl }),
  }
  // Found out anew each time, because a server may have moved to another authorization server.
  await memory.forget('discovery')
  if ((await sdk.auth(client.provider, request)) === 'AUTHORIZED') return
  const answer = await askPerson(oauth, client.errand(), life)
  await sdk.auth(client.provider, { ...request, ...answer })
}

async function secretsOf({ oauth, host, life }: AuthorizerOptions) {
  const fill = (text: string | undefined): Promise<string | undefined> =>
    text === undefined ? Promise.resolve(undefined) : fillSecrets(text, (name) => host.secret(name, life))
  return {
    clientSecret: await fill(oauth.clientSecret),
    privateKey: await fill(oauth.privateKey),
    conceal(value: string) {
      if (value.length > longestToken)
        throw refused(`An authorization server sent more than ${longestToken} characters.`)
      host.conceal(value)
    },
  }
}

/**
 * Requests to authorization servers. What carries credentials goes only to the origins that the host named for that,
 * where it named any: a server must not have them sent to itself by naming itself.
 */
function authFetch({ fetch, life, oauth }: AuthorizerOptions): typeof globalThis.fetch {
  return async (input, init) => {
    const { origin } = new URL(input instanceof Request ? input.url : input)
    const method = (init?.method ?? (input instanceof Request ? input.method : 'GET')).toUpperCase()
    const named = oauth.origins
    if (method !== 'GET' && named !== undefined && !named.includes(origin)) {
      throw new ToolError(
        'EGRESS_DENIED',
        `Credentials go only to ${named.join(', ')}, not to ${origin}; see oauth.origins.`,
      )
    }
    return boundedResponse(await fetch(input, { ...init, signal: init?.signal ?? life }), mostBytes)
  }
}

/** Sends the person on their way and reads what they came back with. */
async function askPerson(
  oauth: McpOAuth,
  errand: { readonly url: URL; readonly state: string },
  signal: AbortSignal,
): Promise<{ readonly authorizationCode: string; readonly iss?: string }> {
  // A page at another origin could ask the person for anything.
  if (oauth.origins !== undefined && !oauth.origins.includes(errand.url.origin)) {
    throw refused(`The person is not sent to ${errand.url.origin}, which is not among oauth.origins.`)
  }
  const back = URL.parse((await oauth.onRedirect?.(errand.url.href, signal)) ?? '')?.searchParams
  const [code, iss] = [back?.get('code'), back?.get('iss')]
  if (back?.get('state') !== errand.state) throw refused('The way back from the authorization server is not ours.')
  if (!code) throw refused('The authorization server gave no code; perhaps the person declined.')
  return { authorizationCode: code, ...(iss == null ? {} : { iss }) }
}

function refused(message: string, cause?: unknown): ToolError {
  return new ToolError('BACKEND_UNAVAILABLE', message, { retryable: false, cause })
}

/** Whether a failure is a server's wish for a token that is good for more. */
export function isStepUp(sdk: Sdk, error: unknown): error is Error & Challenge & { readonly requiredScope?: string } {
  return sdk.InsufficientScopeError.isInstance(error)
}
