import type { EffectClass, HttpAuth, Issue, Tool } from '@gantry/contract'
import { isObject, isText } from '@gantry/contract/internal/json'
import { textList } from '@gantry/core/internal/ids/text-list'
import { namespaceFault } from '@gantry/core/internal/ids/tool-id'
import { type ToolMatcher, toolMatcher } from '@gantry/core/internal/ids/tool-pattern'
import { parseVersion } from '@gantry/core/internal/ids/version'
import { type Check, mapOf, part, ruled, whole } from '@gantry/core/internal/options/option'
import { optionsCheck, refusal, refuse } from '@gantry/core/internal/options/options'
import { escapeSegment } from '@gantry/json-schema/internal/pointer'
import { tagName } from './names.ts'
import type { Operation } from './operations.ts'
import type { Source } from './source.ts'

/** Which operations to import, and under which names. */
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
  /** Version of the tools; by default that of the document, or 1.0.0 when that is not a semantic version. */
  readonly version?: string
  /** Effect classes by method in capitals, or by name as in `operations`; of several that fit, the last counts. */
  readonly effects?: { readonly [methodOrName: string]: EffectClass }
  /** Documents with more operations are refused; 10,000 by default. */
  readonly maxOperations?: number
}

/** The options of the HTTP backend that all tools of a document share. */
export interface OpenapiBackend {
  readonly kind: 'http'
  readonly name: string
  readonly baseUrl: string
  readonly origins?: readonly string[]
  readonly auth?: HttpAuth | readonly HttpAuth[]
}

/** A change or omission during the import. */
export interface OpenapiWarning {
  /** `GET /pets`, when it is about one operation. */
  readonly operation?: string
  /** JSON Pointer into the document. */
  readonly path: string
  readonly message: string
}

/** A secret that calls need. */
export interface OpenapiSecret {
  readonly name: string
  /** Its description. */
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

/** Validated options. */
export interface Choices {
  readonly version: string
  readonly maxOperations: number
  /** Whether an operation is selected, by its name and its tags. */
  wants(name: string, tags: readonly string[]): boolean
  effectOf(operation: Operation, name: string): EffectClass
}

const effectClasses: readonly string[] = ['read', 'keyed', 'reconcilable', 'once', 'repeatable'] satisfies EffectClass[]
const reads: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS'])
const method = /^(?:GET|PUT|POST|DELETE|OPTIONS|HEAD|PATCH)$/

/** A list of words that is not empty; `fault` gives what is wrong with one of them. */
function wordList(fault: (word: string) => string | undefined = () => undefined): Check {
  const issues = (value: unknown, path: string): readonly Issue[] => {
    const found: Issue[] = []
    for (const [index, word] of textList(value, path, found).entries()) {
      const message = fault(word)
      if (message !== undefined) found.push({ path: `${path}/${index}`, message })
    }
    return found
  }
  return { fits: (value) => issues(value, '').length === 0, issues }
}

const importOptions = optionsCheck<OpenapiOptions>({
  members: {
    name: ruled(namespaceFault),
    baseUrl: ruled((url) => urlFault(url, false)),
    origins: wordList(originFault),
    location: ruled((url) => urlFault(url, true)),
    tags: wordList(),
    operations: wordList(),
    version: ruled((text) =>
      parseVersion(text) === undefined ? 'must be a semantic version such as `1.0.0`' : undefined,
    ),
    effects: mapOf(
      part((value) => isText(value) && effectClasses.includes(value), `one of ${effectClasses.join(', ')}`),
    ),
    maxOperations: whole(1),
  },
  required: ['name'],
})

/** Checks the options once; throws CONFIG_INVALID with every path that is wrong. */
export function readChoices(options: OpenapiOptions, source: Source): Choices {
  const issues: Issue[] = [...importOptions.issues(options, '')]
  if (!isObject(options)) throw refusal('options of importOpenapi', issues)
  const { name, tags, operations, effects = {}, maxOperations = 10_000 } = options
  const wanted = tags === undefined ? undefined : new Set(textList(tags, '/tags', []).map(tagName))
  const named = operations === undefined ? undefined : matcher(operations, name, '/operations', issues)
  const rules = isObject(effects) ? effectRules(effects, name, issues) : []
  const version = options.version ?? versionOf(source)
  refuse('options of importOpenapi', issues)
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

/** Patterns of names, each without the namespace, which is always the same here. */
function matcher(patterns: unknown, namespace: string, path: string, issues: Issue[]): ToolMatcher {
  const full = textList(patterns, path, []).map((text) =>
    text.includes(':') || text === '*' ? text : `${namespace}:${text}`,
  )
  return full.length === 0 ? () => false : toolMatcher(full, path, issues)
}

interface EffectRule {
  readonly effect: EffectClass
  fits(method: string, tool: Parameters<ToolMatcher>[0]): boolean
}

function effectRules(
  effects: NonNullable<OpenapiOptions['effects']>,
  name: string,
  issues: Issue[],
): readonly EffectRule[] {
  return Object.entries(effects).map(([key, effect]) => {
    if (method.test(key)) return { effect, fits: (used) => used === key }
    const matches = matcher([key], name, `/effects/${escapeSegment(key.slice(0, 64))}`, issues)
    return { effect, fits: (_method, tool) => matches(tool) }
  })
}

function urlFault(value: string, isLocation: boolean): string | undefined {
  const url = URL.parse(value)
  if (url === null || !/^https?:$/.test(url.protocol)) return 'must be an http or https URL'
  if (url.username !== '' || url.password !== '') return 'must hold no credentials'
  return !isLocation && /[?#]/.test(value) ? 'must end with its path' : undefined
}

function originFault(origin: string): string | undefined {
  if (URL.parse(origin)?.origin === origin && /^https?:/.test(origin)) return undefined
  return 'must be the origin of an http or https URL, such as https://uploads.example.com'
}

/** The version of the document without its pre-release, because an id without a version never means a pre-release. */
function versionOf({ root }: Source): string {
  const own = isObject(root.info) && typeof root.info.version === 'string' ? parseVersion(root.info.version) : undefined
  return own === undefined ? '1.0.0' : `${own.major}.${own.minor}.${own.patch}`
}
