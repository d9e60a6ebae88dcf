import { type EffectClass, type HttpAuth, type Issue, type Tool, ToolError } from '@gantry/contract'
import { textList } from '@gantry/core/internal/ids/text-list'
import { namespaceFault } from '@gantry/core/internal/ids/tool-id'
import { type ToolMatcher, toolMatcher } from '@gantry/core/internal/ids/tool-pattern'
import { parseVersion } from '@gantry/core/internal/ids/version'
import { unknownKeys } from '@gantry/core/internal/search/near'
import { tagName } from './names.ts'
import type { Operation } from './operations.ts'
import { isRecord, type Source } from './source.ts'

/** What to take from a document, and under which names. */
export interface OpenapiOptions {
  /** Namespace of the tools, and name of the backend that they go through. */
  readonly name: string
  /** Where the API is, instead of what `servers` says. */
  readonly baseUrl?: string
  /** Further origins whose operations are kept; an operation with servers of its own elsewhere is left out. */
  readonly origins?: readonly string[]
  /** Where the document came from; a relative server URL is read from there. */
  readonly location?: string
  /** Only operations with one of these tags. */
  readonly tags?: readonly string[]
  /** Only operations whose tool name is one of these; `*` at the end stands for any rest. */
  readonly operations?: readonly string[]
  /** Version of the tools; by default that of the document, or 1.0.0 when it is no semantic version. */
  readonly version?: string
  /** Effect classes by method in capitals, or by name as in `operations`; of several that fit, the last counts. */
  readonly effects?: { readonly [methodOrName: string]: EffectClass }
  /** Documents with more operations are refused; 10,000 by default. */
  readonly maxOperations?: number
}

/** The one backend that all tools of a document share, as the options of an HTTP backend. */
export interface OpenapiBackend {
  readonly kind: 'http'
  readonly name: string
  readonly baseUrl: string
  readonly origins?: readonly string[]
  readonly auth?: HttpAuth | readonly HttpAuth[]
}

/** Something that was changed or ignored on the way. */
export interface OpenapiWarning {
  /** `GET /pets`, when it is about one operation. */
  readonly operation?: string
  /** JSON Pointer into the document. */
  readonly path: string
  readonly message: string
}

/** A secret that calls will ask for. */
export interface OpenapiSecret {
  readonly name: string
  /** What it is, in words. */
  readonly what: string
}

export interface OpenapiReport {
  readonly imported: number
  /** Operations that `tags` or `operations` did not choose. */
  readonly notChosen: number
  readonly leftOut: readonly { readonly operation: string; readonly reason: string }[]
  readonly warnings: readonly OpenapiWarning[]
  readonly secrets: readonly OpenapiSecret[]
  /** Parts of OpenAPI that have no tool: how many there were. */
  readonly notImported: { readonly callbacks: number; readonly webhooks: number; readonly links: number }
}

export interface OpenapiImport {
  readonly name: string
  readonly baseUrl: string
  readonly tools: readonly Tool[]
  readonly backend: OpenapiBackend
  readonly report: OpenapiReport
}

/** The options, checked and ready to be asked. */
export interface Choices {
  readonly version: string
  readonly maxOperations: number
  /** Whether an operation is wanted, by its name and its tags. */
  wants(name: string, tags: readonly string[]): boolean
  effectOf(operation: Operation, name: string): EffectClass
}

const known = ['name', 'baseUrl', 'origins', 'location', 'tags', 'operations', 'version', 'effects', 'maxOperations']
const effectClasses: readonly string[] = ['read', 'keyed', 'reconcilable', 'once', 'repeatable'] satisfies EffectClass[]
const reads: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS'])
const method = /^(?:GET|PUT|POST|DELETE|OPTIONS|HEAD|PATCH)$/

/** Checks the options once; throws CONFIG_INVALID with every path that is wrong. */
export function readChoices(options: OpenapiOptions, source: Source): Choices {
  const issues: Issue[] = []
  if (!isRecord(options)) throw new ToolError('CONFIG_INVALID', 'importOpenapi takes an object of options.')
  const { name, tags, operations, effects = {}, maxOperations = 10_000 } = options
  issues.push(...unknownKeys(options, known, '', 'is not an option of importOpenapi'))
  const fault = typeof name === 'string' ? namespaceFault(name) : 'must be a string'
  if (fault !== undefined) issues.push({ path: '/name', message: fault })
  for (const key of ['baseUrl', 'location'] as const) {
    const wrong = urlFault(options[key], key === 'location')
    if (wrong !== undefined) issues.push({ path: `/${key}`, message: wrong })
  }
  for (const origin of options.origins === undefined ? [] : textList(options.origins, '/origins', issues)) {
    if (URL.parse(origin)?.origin === origin && /^https?:/.test(origin)) continue
    issues.push({
      path: '/origins',
      message: 'must be origins of http or https URLs, such as https://uploads.example.com',
    })
  }
  if (!Number.isSafeInteger(maxOperations) || maxOperations < 1) {
    issues.push({ path: '/maxOperations', message: 'must be a whole number above 0' })
  }
  const wanted = tags === undefined ? undefined : new Set(textList(tags, '/tags', issues).map(tagName))
  const named = operations === undefined ? undefined : matcher(operations, name, '/operations', issues)
  const rules = effectRules(effects, name, issues)
  const version = versionOf(options.version, source, issues)
  refuse(issues)
  return {
    version,
    maxOperations,
    wants: (tool, own) =>
      (wanted === undefined || own.some((tag) => wanted.has(tag))) &&
      (named === undefined || named({ namespace: name, name: tool, version })),
    effectOf(operation, tool) {
      const fits = rules.filter((rule) => rule.fits(operation.method, { namespace: name, name: tool, version }))
      return fits.at(-1)?.effect ?? (reads.has(operation.method) ? 'read' : 'once')
    },
  }
}

function refuse(issues: readonly Issue[]): void {
  if (issues.length === 0) return
  const text = issues.map(({ path, message }) => `${path} ${message}`).join('; ')
  throw new ToolError('CONFIG_INVALID', `importOpenapi was given wrong options: ${text}.`, { details: { issues } })
}

/** Patterns of names, each without the namespace, which is always the same here. */
function matcher(patterns: unknown, namespace: string, path: string, issues: Issue[]): ToolMatcher {
  const whole = textList(patterns, path, issues).map((text) =>
    text.includes(':') || text === '*' ? text : `${namespace}:${text}`,
  )
  return whole.length === 0 ? () => false : toolMatcher(whole, path, issues)
}

interface EffectRule {
  readonly effect: EffectClass
  fits(method: string, tool: Parameters<ToolMatcher>[0]): boolean
}

function effectRules(effects: object, name: string, issues: Issue[]): readonly EffectRule[] {
  return Object.entries(effects).map(([key, effect]) => {
    const path = `/effects/${key.slice(0, 64)}`
    if (!effectClasses.includes(effect)) issues.push({ path, message: `must be one of ${effectClasses.join(', ')}` })
    if (method.test(key)) return { effect, fits: (used) => used === key }
    const matches = matcher([key], name, path, issues)
    return { effect, fits: (_method, tool) => matches(tool) }
  })
}

function urlFault(value: unknown, isLocation: boolean): string | undefined {
  if (value === undefined) return undefined
  const url = typeof value === 'string' ? URL.parse(value) : null
  if (url === null || !/^https?:$/.test(url.protocol)) return 'must be an http or https URL'
  if (url.username !== '' || url.password !== '') return 'must hold no credentials'
  return !isLocation && /[?#]/.test(String(value)) ? 'must end with its path' : undefined
}

/** Stable, because an id without a version never means a pre-release. */
function versionOf(given: unknown, { root }: Source, issues: Issue[]): string {
  if (given !== undefined) {
    const good = typeof given === 'string' && parseVersion(given) !== undefined
    if (!good) issues.push({ path: '/version', message: 'must be a semantic version such as `1.0.0`' })
    return String(given)
  }
  const own = isRecord(root.info) && typeof root.info.version === 'string' ? parseVersion(root.info.version) : undefined
  return own === undefined ? '1.0.0' : `${own.major}.${own.minor}.${own.patch}`
}
