import type { Deprecation, EffectClass, Json, JsonSchema, Tool, ToolAnnotations, ToolExample } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { commentText, isIdentifier, typeText } from '@gantry/json-schema/internal/type-text'
import { oneOf, whole } from '../options/option.ts'
import { checkOptions, optionsCheck } from '../options/options.ts'
import type { CatalogEntry } from './catalog.ts'

/** The level of detail: to choose a tool, to call it (`types` from programs), or to understand it. */
export type DocLevel = 'summary' | 'types' | 'schema' | 'full'

const levels: readonly DocLevel[] = ['summary', 'types', 'schema', 'full']

export interface DescribeOptions {
  /** `summary` when absent. */
  readonly level?: DocLevel | undefined
  /** Token budget, as estimated by `estimateTokens`. */
  readonly maxTokens?: number | undefined
  /** Most examples; when absent, 5 at the level `full` and none below. */
  readonly examples?: number | undefined
  /** All versions of the tool, newest first, from `catalog.versions`. */
  readonly versions?: readonly string[] | undefined
}

const check = optionsCheck<DescribeOptions>({
  members: { level: oneOf(...levels), maxTokens: whole(1), examples: whole(0), versions: true },
})

/** Documentation of one tool; the level and the budget decide which parts are present. */
export interface ToolDoc {
  /** `namespace:name`, as in search results. */
  readonly id: string
  readonly version: string
  readonly title?: string
  /** The first sentences of the description, 200 characters at most. */
  readonly summary: string
  readonly tags?: readonly string[]
  readonly effect: EffectClass
  readonly deprecated?: Deprecation
  /** Level `types` only: a TypeScript declaration for programs over tools. */
  readonly declaration?: string
  /** From here on: levels `schema` and `full`. The digest goes into the `schemaDigest` of a call. */
  readonly digest?: string
  readonly inputSchema?: JsonSchema
  readonly outputSchema?: JsonSchema
  readonly required?: readonly string[]
  readonly defaults?: { readonly [argument: string]: Json }
  /** From here on: level `full`. */
  readonly description?: string
  readonly annotations?: ToolAnnotations
  readonly docs?: string
  readonly examples?: readonly ToolExample[]
  readonly permissions?: readonly string[]
  readonly versions?: readonly string[]
  /** Parts of the level that did not fit the budget. */
  readonly omitted: readonly (keyof ToolDoc)[]
}

/** A tool as a list shows it. */
export interface ListedTool {
  readonly id: string
  readonly version: string
  readonly title?: string
  readonly description: string
  readonly tags: readonly string[]
  readonly effect: EffectClass
  readonly deprecated?: Deprecation
  readonly digest: string
}

export function listedTool({ key, tool, digest }: CatalogEntry): ListedTool {
  const { version, title, description, tags = [], effect, deprecated } = tool
  return {
    id: key,
    version,
    ...(title === undefined ? {} : { title }),
    description,
    tags,
    effect,
    ...(deprecated === undefined ? {} : { deprecated }),
    digest,
  }
}

/** Parts that a tight budget omits, least useful first. All other parts are always present. */
const dispensable = [
  'docs',
  'examples',
  'versions',
  'annotations',
  'permissions',
  'description',
  'outputSchema',
  'tags',
  'defaults',
  'required',
  'inputSchema',
  'declaration',
] as const satisfies readonly (keyof ToolDoc)[]

type Part = (typeof dispensable)[number]

/** Documents a tool at one of four levels, optionally within a token budget. Throws INPUT_INVALID. */
export function describeTool(entry: CatalogEntry, options: DescribeOptions = {}): ToolDoc {
  checkOptions('question', check, options, 'INPUT_INVALID')
  const level = options.level ?? 'summary'
  const limit = options.examples ?? (level === 'full' ? 5 : 0)
  const parts: Partial<ToolDoc> & Omit<ToolDoc, 'omitted'> = {
    ...summaryParts(entry),
    ...(level === 'types' ? { declaration: toolDeclarations([entry.tool]) } : {}),
    ...(level === 'schema' || level === 'full' ? schemaParts(entry) : {}),
    ...(level === 'full' ? fullParts(entry, options.versions) : {}),
    ...present({ examples: atMost(entry.tool.examples, limit) }),
  }
  return fit(parts, options.maxTokens)
}

/** Estimates the tokens of the JSON text of a value at four characters each. */
export function estimateTokens(value: unknown): number {
  return Math.ceil((JSON.stringify(value)?.length ?? 0) / 4)
}

function summaryParts({ key, tool }: CatalogEntry) {
  const { version, title, effect, tags, deprecated } = tool
  return {
    id: key,
    version,
    ...present({ title }),
    summary: firstSentences(tool.description),
    effect,
    ...present({ tags, deprecated }),
  }
}

function schemaParts({ digest, tool }: CatalogEntry) {
  const { inputSchema, outputSchema } = tool
  const shape = isObject(inputSchema) ? inputSchema : {}
  const required = Array.isArray(shape.required) ? shape.required.filter((name) => typeof name === 'string') : []
  const properties = isObject(shape.properties) ? Object.entries(shape.properties) : []
  const defaults = properties.flatMap(([name, schema]) =>
    isObject(schema) && schema.default !== undefined ? [[name, schema.default as Json] as const] : [],
  )
  return {
    digest,
    inputSchema,
    ...present({ outputSchema }),
    ...(required.length > 0 ? { required } : {}),
    ...(defaults.length > 0 ? { defaults: Object.fromEntries(defaults) } : {}),
  }
}

function fullParts({ tool }: CatalogEntry, versions: readonly string[] | undefined) {
  const { description, annotations, docs, permissions } = tool
  return { description, ...present({ annotations, docs, permissions, versions }) }
}

function atMost<T>(list: readonly T[] | undefined, limit: number): readonly T[] | undefined {
  return list === undefined || list.length === 0 || limit <= 0 ? undefined : list.slice(0, limit)
}

function present<T extends object>(parts: T): { [Key in keyof T]?: Exclude<T[Key], undefined> } {
  return Object.fromEntries(Object.entries(parts).filter(([, value]) => value !== undefined)) as {
    [Key in keyof T]?: Exclude<T[Key], undefined>
  }
}

/**
 * Omits parts in order until the rest fits, then restores those that still fit, the most useful first: a long part that
 * was omitted may leave space for a short one that was omitted before it.
 * The mandatory parts may still exceed the budget.
 */
function fit(parts: Omit<ToolDoc, 'omitted'>, maxTokens: number | undefined): ToolDoc {
  if (maxTokens === undefined) return without(parts, [])
  const present = dispensable.filter((part) => parts[part] !== undefined)
  const fits = (left: readonly Part[]): boolean => estimateTokens(without(parts, left)) <= maxTokens
  let omitted: readonly Part[] = []
  for (let count = 1; count <= present.length && !fits(omitted); count += 1) omitted = present.slice(0, count)
  for (const part of omitted.toReversed()) {
    const fewer = omitted.filter((each) => each !== part)
    if (fits(fewer)) omitted = fewer
  }
  return without(parts, omitted)
}

function without(parts: Omit<ToolDoc, 'omitted'>, omitted: readonly Part[]): ToolDoc {
  const kept: Omit<ToolDoc, 'omitted'> & { [part: string]: unknown } = { ...parts }
  for (const part of omitted) delete kept[part]
  return { ...kept, omitted }
}

const summaryLength = 200

/** The complete sentences of the first paragraph up to 200 characters, or its first words when one sentence is longer. */
export function firstSentences(description: string): string {
  const [paragraph = ''] = description
    .slice(0, 2_000)
    .trim()
    .split(/\n\s*\n/, 1)
  const line = paragraph.replace(/[\p{Cc}\s]+/gu, ' ').trim()
  if (line.length <= summaryLength) return line
  const head = line.slice(0, summaryLength)
  const sentences = /^.*[.!?](?=\s)/u.exec(line.slice(0, summaryLength + 1))?.[0]
  if (sentences !== undefined) return sentences
  const space = head.lastIndexOf(' ')
  return `${head.slice(0, space > 100 ? space : summaryLength - 1).toWellFormed()}…`
}

export type DeclaredTool = Pick<
  Tool,
  'namespace' | 'name' | 'description' | 'inputSchema' | 'outputSchema' | 'deprecated'
>

const longestDescription = 300

/**
 * TypeScript declarations of tools for programs, `tools.namespace.name(args)`, by namespace and name. Untrusted text of a
 * tool is escaped into quoted names, types and comment lines. Namespaces without tools are declared too.
 */
export function toolDeclarations(tools: readonly DeclaredTool[], namespaces: readonly string[] = []): string {
  const spaces = Map.groupBy(tools, ({ namespace }) => namespace)
  for (const namespace of namespaces) if (!spaces.has(namespace)) spaces.set(namespace, [])
  const texts = [...spaces].sort(([a], [b]) => (a < b ? -1 : 1)).map(([namespace, own]) => spaceText(namespace, own))
  return `declare const tools: {\n${texts.join('')}}\n`
}

/** The argument and output types of a tool. */
export function toolTypes({ inputSchema, outputSchema }: DeclaredTool, indent = ''): { args: string; output: string } {
  return {
    args: typeText(inputSchema, { anything: 'unknown', indent }),
    output: outputSchema === undefined ? 'any' : typeText(outputSchema, { anything: 'any', indent }),
  }
}

/** Whether a tool can be called without arguments. */
export function takesNothing({ inputSchema }: DeclaredTool): boolean {
  if (!isObject(inputSchema)) return true
  const { required } = inputSchema
  return !Array.isArray(required) || required.length === 0
}

function spaceText(namespace: string, tools: readonly DeclaredTool[]): string {
  const sorted = [...tools].sort((a, b) => (a.name < b.name ? -1 : 1))
  return `  readonly ${memberName(namespace)}: {\n${sorted.map(toolText).join('')}  }\n`
}

function toolText(tool: DeclaredTool): string {
  const { args, output } = toolTypes(tool, '    ')
  const doc = docText(tool)
  const head = doc === '' ? '' : `    /** ${doc} */\n`
  return `${head}    ${memberName(tool.name)}(args${takesNothing(tool) ? '?' : ''}: ${args}): Promise<${output}>\n`
}

function docText({ description, deprecated }: DeclaredTool): string {
  const said = commentText(description, longestDescription)
  return deprecated === undefined ? said : `${said} @deprecated ${commentText(deprecated.message)}`
}

function memberName(name: string): string {
  return isIdentifier(name) ? name : JSON.stringify(name)
}
