import type { EffectClass, JsonObject } from '@gantry/contract'

/** What a server asks of the one who uses it; `signal` aborts when it no longer wants the answer. */
export type McpHandler = (request: JsonObject, context: { readonly signal: AbortSignal }) => Promise<JsonObject>

/** A folder or another place that a server may know of. */
export interface McpRoot {
  readonly uri: string
  readonly name?: string
}

/** Keeps what an authorization server gave, so that a restart needs no new consent. Values are secrets. */
export interface TokenStore {
  get(key: string): Promise<string | undefined>
  set(key: string, value: string): Promise<void>
  delete(key: string): Promise<void>
}

/** How the backend gets an access token for a remote server. */
export interface McpOAuth {
  readonly grant: 'client_credentials' | 'authorization_code'
  /** Without one, the client registers itself, or names `clientMetadataUrl` where the server takes that. */
  readonly clientId?: string
  /** Text with a reference `secret:name`. */
  readonly clientSecret?: string
  /** A private key in PEM, as `secret:name`, for servers that want a signed assertion; client credentials only. */
  readonly privateKey?: string
  /** How the assertion is signed; ES256 when absent. */
  readonly algorithm?: string
  /** An HTTPS address at which the client describes itself. */
  readonly clientMetadataUrl?: string
  readonly scopes?: readonly string[]
  /** Where the authorization server sends the person back to. */
  readonly redirectUrl?: string
  /** Shows the person this http(s) address and gives back the whole address that they were sent back to. */
  readonly onRedirect?: (url: string, signal: AbortSignal) => Promise<string>
  /** Origins of authorization servers that discovery may lead to, beside the server's own. */
  readonly origins?: readonly string[]
  /** In memory when absent. */
  readonly store?: TokenStore
}

/** How fast a server that ended is started again; the delay doubles from the first to the longest. */
export interface McpRestart {
  /** 100 when absent. */
  readonly delayMs?: number
  /** 30,000 when absent. */
  readonly maxDelayMs?: number
  /** How often it is tried without anybody asking; 5 when absent. */
  readonly attempts?: number
}

/** A server of the Model Context Protocol: a program that speaks over its input and output, or an address. */
export interface McpOptions {
  /** Namespace of its tools. */
  readonly name: string
  /** Program and arguments, started without a shell. */
  readonly command?: readonly string[]
  readonly cwd?: string
  /** All that the program sees of the environment beside PATH, HOME, LANG, TMPDIR and TEMP; may hold `secret:name`. */
  readonly env?: { readonly [name: string]: string }
  /** Address of a server that speaks streamable HTTP. */
  readonly url?: string
  /** Sent to that address only; may hold `secret:name`. */
  readonly headers?: { readonly [name: string]: string }
  /** The address is private on purpose. */
  readonly private?: boolean
  readonly oauth?: McpOAuth
  /** For connecting and for reading the list of tools: 30,000 when absent; a first start by `npx` may need more. */
  readonly timeoutMs?: number
  /** Of one message: 16 MiB when absent. */
  readonly maxResponseBytes?: number
  /** 1,000 when absent; the rest is left out. */
  readonly maxTools?: number
  /** Names of tools, or beginnings of names with `*`; all of them when absent. */
  readonly include?: readonly string[]
  readonly exclude?: readonly string[]
  /** What may happen to a call whose worker died, by the server's name of the tool; `once` where nothing is said. */
  readonly effects?: { readonly [tool: string]: EffectClass }
  /** Answers questions to the person; without it the server is told that nobody can be asked. */
  readonly onElicitation?: McpHandler
  /** Answers requests to a model; without it the server is told that there is none. */
  readonly onSampling?: McpHandler
  /** Names places that the server may use; without it the server is told of none. */
  readonly onRoots?: (context: {
    readonly signal: AbortSignal
  }) => Promise<readonly McpRoot[] | { readonly roots: readonly McpRoot[] }>
  readonly restart?: McpRestart
}
