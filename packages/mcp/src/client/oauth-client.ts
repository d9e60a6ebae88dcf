import { randomBytes } from 'node:crypto'
import { ToolError } from '@gantry/contract'
import type {
  OAuthClientProvider,
  OAuthDiscoveryState,
  StoredOAuthClientInformation,
  StoredOAuthTokens,
} from '@modelcontextprotocol/client'
import { checkWebAddress } from './client.ts'
import type { McpOAuth, TokenStore } from './options.ts'
import type { Sdk } from './sdk.ts'

/** One request for a token: what the SDK asks of its owner, and what it left behind. */
interface OAuthClient {
  readonly provider: OAuthClientProvider
  /** Where the person has to go and by which `state` their way back is known. */
  readonly errand: () => { readonly url: URL; readonly state: string }
}

interface OAuthClientOptions {
  readonly sdk: Sdk
  readonly oauth: McpOAuth
  readonly memory: TokenMemory
  /** Values of the references in the options. */
  readonly clientSecret: string | undefined
  readonly privateKey: string | undefined
  conceal(value: string): void
}

/** Answers the SDK's questions for the length of one request for a token; requests come one after the other. */
export function oauthClient(options: OAuthClientOptions): OAuthClient {
  const { oauth, memory, clientSecret, conceal } = options
  const { clientId } = oauth
  const redirectUrl = oauth.grant === 'authorization_code' ? oauth.redirectUrl : undefined
  const scope = oauth.scopes?.join(' ')
  const state = randomBytes(32).toString('base64url')
  let verifier = ''
  let going: URL | undefined

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
      // The stamp says whose client this is, so that its secret is never shown to another authorization server.
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
      going = checkWebAddress(url)
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
    errand: () => {
      if (going !== undefined) return { url: going, state }
      throw new ToolError('BACKEND_UNAVAILABLE', 'The authorization server did not say where to go.')
    },
  }
}

/** What the grant without a person needs beside the rest. */
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

/** What a client remembers between two requests for a token. */
interface Remembered {
  readonly client: StoredOAuthClientInformation
  readonly tokens: StoredOAuthTokens
  readonly discovery: OAuthDiscoveryState
}

/** Typed access to a TokenStore; a value that does not parse counts as absent. */
export interface TokenMemory {
  read<Key extends keyof Remembered>(key: Key): Promise<Remembered[Key] | undefined>
  write<Key extends keyof Remembered>(key: Key, value: Remembered[Key]): Promise<void>
  forget(key: keyof Remembered): Promise<void>
}

/** Keeps the values of one server apart from those of others in the same store. */
export function tokenMemory(store: TokenStore, server: string): TokenMemory {
  const place = (key: string): string => `${server}/${key}`
  return {
    async read<Key extends keyof Remembered>(key: Key) {
      const text = await store.get(place(key))
      if (text === undefined) return undefined
      try {
        return JSON.parse(text) as Remembered[Key]
      } catch {
        return undefined
      }
    },
    write: (key, value) => store.set(place(key), JSON.stringify(value)),
    forget: (key) => store.delete(place(key)),
  }
}

/** Forgets everything with the process. */
export function memoryTokenStore(): TokenStore {
  const values = new Map<string, string>()
  return {
    get: async (key) => values.get(key),
    set: async (key, value) => void values.set(key, value),
    delete: async (key) => void values.delete(key),
  }
}
