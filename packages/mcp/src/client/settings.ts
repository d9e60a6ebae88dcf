import type { EffectClass, Issue, JsonObject } from '@gantry/contract'
import { isObject, isText } from '@gantry/contract/internal/json'
import { fetchSecrets, fillSecrets as fill, secretNames } from '@gantry/core/internal/ids/secret-reference'
import { namespaceFault } from '@gantry/core/internal/ids/tool-id'
import { above0, anObject, callback, flag, oneOf, part, ruled, text, whole } from '@gantry/core/internal/options/option'
import { optionsCheck, refuse } from '@gantry/core/internal/options/options'

/** A server's request to the host; `signal` aborts when the server no longer wants the response. */
export type McpHandler = (request: JsonObject, context: { readonly signal: AbortSignal }) => Promise<JsonObject>

/** A folder or another location that a server may know of. */
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
  /** Origins of authorization servers that discovery may lead to, in addition to the server's own. */
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
  /** Automatic attempts in a row; 5 when absent. */
  readonly attempts?: number
}

/** A server of the Model Context Protocol: a program that speaks over its input and output, or an address. */
export interface McpOptions {
  /** Namespace of its tools. */
  readonly name: string
  /** Program and arguments, started without a shell. */
  readonly command?: readonly string[]
  readonly cwd?: string
  /** The environment of the program in addition to PATH, HOME, LANG, TMPDIR and TEMP; may hold `secret:name`. */
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
  /** The effect class of a tool by its name at the server, which decides whether a call whose worker died is repeated; `once` when absent. */
  readonly effects?: { readonly [tool: string]: EffectClass }
  /** Answers elicitation requests; without it the server learns that elicitation is not supported. */
  readonly onElicitation?: McpHandler
  /** Answers sampling requests; without it the server learns that sampling is not supported. */
  readonly onSampling?: McpHandler
  /** Names the roots that the server may use; without it the server gets none. */
  readonly onRoots?: (context: {
    readonly signal: AbortSignal
  }) => Promise<readonly McpRoot[] | { readonly roots: readonly McpRoot[] }>
  readonly restart?: McpRestart
}

/** A program to start. */
export interface ProgramLocation {
  readonly kind: 'program'
  readonly command: readonly [string, ...string[]]
  readonly cwd?: string
  readonly env: { readonly [name: string]: string }
}

/** A server that is reached over HTTP. */
export interface RemoteLocation {
  readonly kind: 'remote'
  readonly url: URL
  readonly headers: { readonly [name: string]: string }
  readonly private: boolean
  readonly oauth?: McpOAuth
}

/** Validated options with defaults. */
export interface McpSettings {
  readonly name: string
  readonly location: ProgramLocation | RemoteLocation
  readonly timeoutMs: number
  readonly maxResponseBytes: number
  readonly maxTools: number
  readonly restart: Required<McpRestart>
  /** Whether `include` and `exclude` allow this tool. */
  wants(tool: string): boolean
  effectOf(tool: string): EffectClass
  readonly handlers: Pick<McpOptions, 'onElicitation' | 'onSampling' | 'onRoots'>
}

const strings = { type: 'array', items: { type: 'string' }, description: 'a list of strings' }
const stringsByName = { type: 'object', additionalProperties: { type: 'string', description: 'a string' } }
const address = part((value) => httpUrl(value) !== undefined, 'an http or https address', {
  type: 'string',
  description: 'an http or https address',
})
const effects = ['read', 'keyed', 'reconcilable', 'once', 'repeatable'] satisfies EffectClass[]

const oauthCheck = optionsCheck<McpOAuth>({
  members: {
    grant: oneOf('client_credentials', 'authorization_code'),
    clientId: text(),
    clientSecret: text(),
    privateKey: text(),
    algorithm: text(),
    clientMetadataUrl: address,
    scopes: strings,
    redirectUrl: address,
    onRedirect: callback,
    origins: strings,
    // An object with functions, which is not part of a schema.
    store: { ...anObject, schema: false },
  },
  required: ['grant'],
})

/** The check of the options of an MCP backend. */
export const mcpCheck = optionsCheck<McpOptions>({
  members: {
    name: ruled((value) => {
      const fault = namespaceFault(value)
      return fault === undefined ? undefined : `cannot be a namespace: it ${fault}`
    }),
    command: part(isCommand, 'a list: program, then arguments', {
      type: 'array',
      items: { type: 'string' },
      minItems: 1,
      description: 'a list: program, then arguments',
    }),
    cwd: text(),
    env: stringsByName,
    url: address,
    headers: stringsByName,
    private: flag,
    oauth: oauthCheck,
    timeoutMs: above0,
    maxResponseBytes: above0,
    maxTools: above0,
    include: strings,
    exclude: strings,
    effects: { type: 'object', additionalProperties: oneOf(...effects) },
    onElicitation: callback,
    onSampling: callback,
    onRoots: callback,
    restart: optionsCheck<McpRestart>({ members: { delayMs: above0, maxDelayMs: above0, attempts: whole(0) } }),
  },
  required: ['name'],
})

/** Validates options and applies defaults; throws one CONFIG_INVALID for all failing paths. */
export function readOptions(options: McpOptions): McpSettings {
  const own = isObject(options) ? [...grantFaults(options.oauth), ...placeFaults(options)] : []
  refuse('options of an MCP server', [...mcpCheck.issues(options, ''), ...own])
  return settingsOf(options)
}

function isCommand(value: unknown): boolean {
  return Array.isArray(value) && value.every(isText) && value.length > 0 && value[0] !== ''
}

/** The missing options of a grant. */
function grantFaults(oauth: McpOAuth | undefined): Issue[] {
  if (!isObject(oauth)) return []
  const { grant, clientId, clientSecret, privateKey, redirectUrl, onRedirect } = oauth
  const missing = (name: string, message = 'is needed for this grant'): Issue => ({ path: `/oauth/${name}`, message })
  if (grant === 'client_credentials') {
    return [
      ...(clientId === undefined ? [missing('clientId')] : []),
      ...(clientSecret === undefined && privateKey === undefined
        ? [missing('clientSecret', 'is needed for this grant, or a privateKey')]
        : []),
    ]
  }
  return [
    ...(redirectUrl === undefined ? [missing('redirectUrl')] : []),
    ...(onRedirect === undefined ? [missing('onRedirect')] : []),
  ]
}

function placeFaults(options: McpOptions): Issue[] {
  const { command: program, url } = options
  if ((program === undefined) === (url === undefined)) {
    return [{ path: '/command', message: 'and url: exactly one of them must be given' }]
  }
  const strange =
    program === undefined ? (['cwd', 'env', 'restart'] as const) : (['headers', 'private', 'oauth'] as const)
  return strange
    .filter((key) => options[key] !== undefined)
    .map((key) => ({ path: `/${key}`, message: `is for ${program === undefined ? 'a command' : 'a url'} only` }))
}

function settingsOf(options: McpOptions): McpSettings {
  const included = options.include === undefined ? () => true : nameTest(options.include)
  const excluded = nameTest(options.exclude ?? [])
  const declared = new Map(Object.entries(options.effects ?? {}))
  const { onElicitation, onSampling, onRoots, restart } = options
  return {
    name: options.name,
    location: locationOf(options),
    timeoutMs: options.timeoutMs ?? 30_000,
    maxResponseBytes: options.maxResponseBytes ?? 16 * 1_048_576,
    maxTools: options.maxTools ?? 1_000,
    restart: {
      delayMs: restart?.delayMs ?? 100,
      maxDelayMs: restart?.maxDelayMs ?? 30_000,
      attempts: restart?.attempts ?? 5,
    },
    wants: (tool) => included(tool) && !excluded(tool),
    effectOf: (tool) => declared.get(tool) ?? 'once',
    handlers: {
      ...(onElicitation === undefined ? {} : { onElicitation }),
      ...(onSampling === undefined ? {} : { onSampling }),
      ...(onRoots === undefined ? {} : { onRoots }),
    },
  }
}

function locationOf(options: McpOptions): ProgramLocation | RemoteLocation {
  const { cwd, oauth } = options
  const url = httpUrl(options.url)
  if (url !== undefined) {
    const base = { kind: 'remote', url, headers: { ...options.headers }, private: options.private === true } as const
    return oauth === undefined ? base : { ...base, oauth }
  }
  const [program = '', ...rest] = options.command ?? []
  const base = { kind: 'program', command: [program, ...rest], env: { ...options.env } } as const
  return cwd === undefined ? base : { ...base, cwd }
}

function nameTest(patterns: readonly string[]): (tool: string) => boolean {
  const exact = new Set(patterns)
  const beginnings = patterns.filter((pattern) => pattern.endsWith('*')).map((pattern) => pattern.slice(0, -1))
  return (tool) => exact.has(tool) || beginnings.some((beginning) => tool.startsWith(beginning))
}

function httpUrl(value: unknown): URL | undefined {
  const url = typeof value === 'string' ? (URL.parse(value) ?? undefined) : undefined
  return url?.protocol === 'http:' || url?.protocol === 'https:' ? url : undefined
}

type Secret = (name: string) => Promise<string>

/** Replaces references to secrets in a text, such as `Bearer secret:token`, with their values. */
export async function fillSecrets(text: string, secret: Secret): Promise<string> {
  return fill(text, await fetchSecrets(secretNames([text]), secret))
}

/** The same for every member of an object of texts. */
export async function fillAll(
  texts: { readonly [name: string]: string },
  secret: Secret,
): Promise<{ readonly [name: string]: string }> {
  const secrets = await fetchSecrets(secretNames(Object.values(texts)), secret)
  return Object.fromEntries(Object.entries(texts).map(([name, text]) => [name, fill(text, secrets)]))
}
