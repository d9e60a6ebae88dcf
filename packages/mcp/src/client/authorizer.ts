import { randomBytes } from 'node:crypto'
import { ToolError } from '@gantry/contract'
import type { BackendHost } from '@gantry/core/internal/backends/backend'
import type {
  AuthProvider,
  OAuthClientProvider,
  OAuthDiscoveryState,
  StoredOAuthClientInformation,
  StoredOAuthTokens,
} from '@modelcontextprotocol/client'
import { boundedResponse } from './bounded-response.ts'
import { checkWebAddress } from './connection.ts'
import { loadSdk, type Sdk } from './sdk.ts'
import { fillSecrets, type McpOAuth, type TokenStore } from './settings.ts'

/** The scopes and resource that a server requires of a token. */
interface Challenge {
  readonly scope?: string | undefined
  readonly resourceMetadataUrl?: URL | undefined
}

/** Obtains tokens for one server and sends them only to it. */
export interface Authorizer {
  readonly provider: AuthProvider
  /** Obtains a token with more scopes; false when the current token already has all of them. */
  stepUp(challenge: Challenge): Promise<boolean>
}

interface AuthorizerOptions {
  readonly server: string
  readonly url: URL
  readonly oauth: McpOAuth
  readonly host: BackendHost
  /** Fetch through egress, because discovery may lead to any origin. */
  readonly fetch: typeof fetch
  /** Aborts with the backend and not with one connection, because a consent may take longer. */
  readonly life: AbortSignal
}

/** The size limit of documents of an authorization server. */
const mostBytes = 1_048_576
/** The size limit of a token, because each is searched for in every response. */
const longestToken = 16_384

/**
 * The SDK implements discovery, registration, the checks of issuer and resource, and the exchange. This part runs them
 * one at a time and requests the user's consent. URLs for the user are http or https and are never opened here.
 */
export function createAuthorizer(options: AuthorizerOptions): Authorizer {
  const { server, oauth } = options
  // Stored by URL, because a token for one server must not be sent to another server of the same name.
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
  // Discovered each time, because a server may have moved to another authorization server.
  await memory.forget('discovery')
  if ((await sdk.auth(client.provider, request)) === 'AUTHORIZED') return
  const answer = await askPerson(oauth, client.authorizationRequest(), life)
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
 * Requests to authorization servers. With configured origins, credentials are sent only to these: a server must not
 * obtain them by naming itself as its authorization server.
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

/** Asks the user for consent and reads the redirect. */
async function askPerson(
  oauth: McpOAuth,
  authorizationRequest: { readonly url: URL; readonly state: string },
  signal: AbortSignal,
): Promise<{ readonly authorizationCode: string; readonly iss?: string }> {
  // A page at another origin could phish the user.
  if (oauth.origins !== undefined && !oauth.origins.includes(authorizationRequest.url.origin)) {
    throw refused(`The person is not sent to ${authorizationRequest.url.origin}, which is not among oauth.origins.`)
  }
  const back = URL.parse((await oauth.onRedirect?.(authorizationRequest.url.href, signal)) ?? '')?.searchParams
  const [code, iss] = [back?.get('code'), back?.get('iss')]
  if (back?.get('state') !== authorizationRequest.state)
    throw refused('The redirect from the authorization server has another state than the request.')
  if (!code) throw refused('The authorization server gave no code; perhaps the person declined.')
  return { authorizationCode: code, ...(iss == null ? {} : { iss }) }
}

function refused(message: string, cause?: unknown): ToolError {
  return new ToolError('BACKEND_UNAVAILABLE', message, { retryable: false, cause })
}

/** Whether a failure is a server's request for a token with more scopes. */
export function isStepUp(sdk: Sdk, error: unknown): error is Error & Challenge & { readonly requiredScope?: string } {
  return sdk.InsufficientScopeError.isInstance(error)
}

/** One request for a token: the SDK's OAuth provider, and its results. */
interface OAuthClient {
  readonly provider: OAuthClientProvider
  /** The consent URL, and the `state` that identifies the redirect. */
  readonly authorizationRequest: () => { readonly url: URL; readonly state: string }
}

interface OAuthClientOptions {
  readonly sdk: Sdk
  readonly oauth: McpOAuth
  readonly memory: TokenMemory
  /** Resolves secret references of the options. */
  readonly clientSecret: string | undefined
  readonly privateKey: string | undefined
  conceal(value: string): void
}

/** The SDK's OAuth provider for one request for a token; requests are sequential. */
function oauthClient(options: OAuthClientOptions): OAuthClient {
  const { oauth, memory, clientSecret, conceal } = options
  const { clientId } = oauth
  const redirectUrl = oauth.grant === 'authorization_code' ? oauth.redirectUrl : undefined
  const scope = oauth.scopes?.join(' ')
  const state = randomBytes(32).toString('base64url')
  let verifier = ''
  let authorizationUrl: URL | undefined

  const provider: OAuthClientProvider = {
    redirectUrl,
    ...(oauth.clientMetadataUrl === undefined ? {} : { clientMetadataUrl: oauth.clientMetadataUrl }),
    clientMetadata: {
      client_name: 'Gantry',
      redirect_uris: redirectUrl === undefined ? [] : [redirectUrl],
      ...(redirectUrl === undefined
        ? { grant_types: ['client_credentials'] }
        : { grant_types: ['authorization_code', 'refresh_token'], response_types: ['code'] }),
      ...(scope === undefined ? {} : { scope }),
    },
    state: () => state,
    async clientInformation(context) {
      const known = await memory.read('client')
      if (clientId === undefined || (known !== undefined && known.client_id !== clientId)) return known
      // The stamp names the issuer of this client, so that its secret is never sent to another authorization server.
      const issuer = known?.issuer ?? context?.issuer
      const stamped = { client_id: clientId, ...(issuer === undefined ? {} : { issuer }) }
      if (known?.issuer === undefined) await memory.write('client', stamped)
      return { ...stamped, ...(clientSecret === undefined ? {} : { client_secret: clientSecret }) }
    },
    async saveClientInformation(information) {
      const { client_id, client_secret, issuer } = information
      if (client_secret !== undefined) conceal(client_secret)
      const own = client_id === clientId
      await memory.write('client', own ? { client_id, ...(issuer === undefined ? {} : { issuer }) } : information)
    },
    tokens: () => memory.read('tokens'),
    async saveTokens(tokens) {
      for (const value of [tokens.access_token, tokens.refresh_token, tokens.id_token]) {
        if (value !== undefined) conceal(value)
      }
      await memory.write('tokens', tokens)
    },
    redirectToAuthorization(url) {
      authorizationUrl = checkWebAddress(url)
    },
    saveCodeVerifier(value) {
      verifier = value
    },
    codeVerifier: () => verifier,
    saveDiscoveryState: (discovery) => memory.write('discovery', discovery),
    discoveryState: () => memory.read('discovery'),
    async invalidateCredentials(what) {
      if (what === 'all' || what === 'client') await memory.forget('client')
      if (what === 'all' || what === 'tokens') await memory.forget('tokens')
      if (what === 'all' || what === 'discovery') await memory.forget('discovery')
    },
    ...clientCredentials(options),
  }
  return {
    provider,
    authorizationRequest: () => {
      if (authorizationUrl !== undefined) return { url: authorizationUrl, state }
      throw new ToolError('BACKEND_UNAVAILABLE', 'The authorization server returned no authorization URL.')
    },
  }
}

/** The additional parts of the client_credentials grant. */
function clientCredentials({ sdk, oauth, privateKey }: OAuthClientOptions): Partial<OAuthClientProvider> {
  if (oauth.grant !== 'client_credentials') return {}
  const prepareTokenRequest = (scope?: string): URLSearchParams => {
    const wanted = scope ?? oauth.scopes?.join(' ')
    return new URLSearchParams({ grant_type: 'client_credentials', ...(wanted === undefined ? {} : { scope: wanted }) })
  }
  if (privateKey === undefined) return { prepareTokenRequest }
  const client = oauth.clientId ?? ''
  const alg = oauth.algorithm ?? 'ES256'
  const addClientAuthentication = sdk.createPrivateKeyJwtAuth({ issuer: client, subject: client, privateKey, alg })
  return { prepareTokenRequest, addClientAuthentication }
}

/** The state that a client keeps between two requests for a token. */
interface Remembered {
  readonly client: StoredOAuthClientInformation
  readonly tokens: StoredOAuthTokens
  readonly discovery: OAuthDiscoveryState
}

/** Typed access to a TokenStore; a value that does not parse counts as absent. */
interface TokenMemory {
  read<Key extends keyof Remembered>(key: Key): Promise<Remembered[Key] | undefined>
  write<Key extends keyof Remembered>(key: Key, value: Remembered[Key]): Promise<void>
  forget(key: keyof Remembered): Promise<void>
}

/** Keeps the values of one server apart from those of others in the same store. */
function tokenMemory(store: TokenStore, server: string): TokenMemory {
  const location = (key: string): string => `${server}/${key}`
  return {
    async read<Key extends keyof Remembered>(key: Key) {
      const text = await store.get(location(key))
      if (text === undefined) return undefined
      try {
        return JSON.parse(text) as Remembered[Key]
      } catch {
        return undefined
      }
    },
    write: (key, value) => store.set(location(key), JSON.stringify(value)),
    forget: (key) => store.delete(location(key)),
  }
}

/** A store in memory. */
function memoryTokenStore(): TokenStore {
  const values = new Map<string, string>()
  return {
    get: async (key) => values.get(key),
    set: async (key, value) => void values.set(key, value),
    delete: async (key) => void values.delete(key),
  }
}
