import { type EffectClass, type Issue, ToolError } from '@gantry/contract'
import { fetchSecrets, fillSecrets as fill, secretNames } from '@gantry/core/internal/ids/secret-reference'
import { namespaceFault } from '@gantry/core/internal/ids/tool-id'
import { unknownKeys } from '@gantry/core/internal/search/near'
import type { McpOAuth, McpOptions, McpRestart } from './options.ts'

/** A program to start. */
export interface ProgramPlace {
  readonly kind: 'program'
  readonly command: readonly [string, ...string[]]
  readonly cwd?: string
  readonly env: { readonly [name: string]: string }
}

/** An address to talk to. */
export interface RemotePlace {
  readonly kind: 'remote'
  readonly url: URL
  readonly headers: { readonly [name: string]: string }
  readonly private: boolean
  readonly oauth?: McpOAuth
}

/** Options after the check, with their defaults. */
export interface McpSettings {
  readonly name: string
  readonly place: ProgramPlace | RemotePlace
  readonly timeoutMs: number
  readonly maxResponseBytes: number
  readonly maxTools: number
  readonly restart: Required<McpRestart>
  /** Whether the host wants this tool at all. */
  wants(tool: string): boolean
  effectOf(tool: string): EffectClass
  readonly handlers: Pick<McpOptions, 'onElicitation' | 'onSampling' | 'onRoots'>
}

type Check = (value: unknown) => string | undefined

const effects: readonly unknown[] = ['read', 'keyed', 'reconcilable', 'once', 'repeatable'] satisfies EffectClass[]
const text: Check = (value) => (typeof value === 'string' && value !== '' ? undefined : 'must be a text')
const flag: Check = (value) => (typeof value === 'boolean' ? undefined : 'must be true or false')
const handler: Check = (value) => (typeof value === 'function' ? undefined : 'must be a function')
const record: Check = (value) => (isObject(value) ? undefined : 'must be an object')
const texts: Check = (value) => (isTexts(value) ? undefined : 'must be a list of texts')
const textsByName: Check = (value) =>
  isObject(value) && isTexts(Object.values(value)) ? undefined : 'must be an object of texts'
const positive: Check = (value) =>
  typeof value === 'number' && value > 0 && Number.isFinite(value) ? undefined : 'must be a number above 0'
const command: Check = (value) =>
  isTexts(value) && value[0] !== undefined && value[0] !== '' ? undefined : 'must be a list: program, then arguments'
const effectsByName: Check = (value) =>
  isObject(value) && Object.values(value).every((effect) => effects.includes(effect))
    ? undefined
    : `must give each tool one of ${effects.join(', ')}`
const address: Check = (value) => (httpUrl(value) === undefined ? 'must be an http or https address' : undefined)
const name: Check = (value) => {
  const fault = typeof value === 'string' ? namespaceFault(value) : 'is not a text'
  return fault === undefined ? undefined : `cannot be a namespace: it ${fault}`
}

const checks: { readonly [Key in keyof Required<McpOptions>]: Check } = {
  name,
  command,
  cwd: text,
  env: textsByName,
  url: address,
  headers: textsByName,
  private: flag,
  oauth: record,
  timeoutMs: positive,
  maxResponseBytes: positive,
  maxTools: positive,
  include: texts,
  exclude: texts,
  effects: effectsByName,
  onElicitation: handler,
  onSampling: handler,
  onRoots: handler,
  restart: record,
}

const oauthChecks: { readonly [Key in keyof Required<McpOAuth>]: Check } = {
  grant: (value) =>
    value === 'client_credentials' || value === 'authorization_code'
      ? undefined
      : "must be 'client_credentials' or 'authorization_code'",
  clientId: text,
  clientSecret: text,
  privateKey: text,
  algorithm: text,
  clientMetadataUrl: address,
  scopes: texts,
  redirectUrl: address,
  onRedirect: handler,
  origins: texts,
  store: record,
}

const restartChecks: { readonly [Key in keyof Required<McpRestart>]: Check } = {
  delayMs: positive,
  maxDelayMs: positive,
  attempts: (value) => (Number.isSafeInteger(value) && Number(value) >= 0 ? undefined : 'must be a whole number'),
}

/** Refuses wrong options with CONFIG_INVALID, all of them at once, and fills in what is not said. */
export function readOptions(options: McpOptions): McpSettings {
  if (!isObject(options)) throw new ToolError('CONFIG_INVALID', 'mcp takes an object of options.')
  const issues = [
    ...faults(options, checks, ''),
    ...(isObject(options.oauth) ? oauthFaults(options.oauth) : []),
    ...(isObject(options.restart) ? faults(options.restart, restartChecks, '/restart') : []),
    ...placeFaults(options),
  ]
  if (issues.length === 0) return settingsOf(options)
  const list = issues.map(({ path, message }) => `${path} ${message}`).join('; ')
  throw new ToolError('CONFIG_INVALID', `An MCP server has wrong options: ${list}`, { details: { issues } })
}

function faults(value: object, table: { readonly [key: string]: Check }, path: string): Issue[] {
  const found = [...unknownKeys(value, Object.keys(table), path, 'is not an option')]
  for (const [key, check] of Object.entries(table)) {
    const member = (value as { readonly [key: string]: unknown })[key]
    const message = member === undefined && key !== 'name' && key !== 'grant' ? undefined : check(member)
    if (message !== undefined) found.push({ path: `${path}/${key}`, message })
  }
  return found
}

function oauthFaults(oauth: McpOAuth): Issue[] {
  const found = faults(oauth, oauthChecks, '/oauth')
  if (oauth.grant === 'client_credentials') {
    if (oauth.clientId === undefined) found.push({ path: '/oauth/clientId', message: 'is needed for this grant' })
    if (oauth.clientSecret === undefined && oauth.privateKey === undefined) {
      found.push({ path: '/oauth/clientSecret', message: 'is needed for this grant, or a privateKey' })
    }
  } else {
    if (oauth.redirectUrl === undefined) found.push({ path: '/oauth/redirectUrl', message: 'is needed for this grant' })
    if (oauth.onRedirect === undefined) found.push({ path: '/oauth/onRedirect', message: 'is needed for this grant' })
  }
  return found
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
    .map((key) => ({ path: `/${key}`, message: `goes with ${program === undefined ? 'a command' : 'a url'} only` }))
}

function settingsOf(options: McpOptions): McpSettings {
  const included = options.include === undefined ? () => true : nameTest(options.include)
  const excluded = nameTest(options.exclude ?? [])
  const declared = new Map(Object.entries(options.effects ?? {}))
  const { onElicitation, onSampling, onRoots, restart } = options
  return {
    name: options.name,
    place: placeOf(options),
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

function placeOf(options: McpOptions): ProgramPlace | RemotePlace {
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

function isObject(value: unknown): value is { readonly [key: string]: unknown } {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function isTexts(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((item) => typeof item === 'string')
}

type Secret = (name: string) => Promise<string>

/** Puts secrets in the place of their references: `Bearer secret:token` becomes what is to be sent. */
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
