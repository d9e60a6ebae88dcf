import type {
  Deprecation,
  EffectClass,
  Issue,
  Json,
  JsonSchema,
  Tool,
  ToolAnnotations,
  ToolExample,
} from '@gantry/contract'
import { commentText, isIdentifier, typeText } from '@gantry/json-schema/internal/type-text'
import { isObject } from '../json/kinds.ts'
import { didYouMean } from '../search/index.ts'
import type { CatalogEntry } from './catalog.ts'
import { inputFault } from './tool-fields.ts'

/** How much a reader wants to know: to choose a tool, to call it (by types in programs), or to understand it. */
export type DocLevel = 'summary' | 'types' | 'schema' | 'full'

const levels: readonly DocLevel[] = ['summary', 'types', 'schema', 'full']

export interface DescribeOptions {
  /** `summary` when absent. */
  readonly level?: DocLevel | undefined
  /** The answer's size in tokens, as estimated by `estimateTokens`. */
  readonly maxTokens?: number | undefined
  /** Most examples to give; 5 at the `full` level and none below when absent. */
  readonly examples?: number | undefined
  /** All versions of the tool, newest first, as `catalog.versions` gives them. */
  readonly versions?: readonly string[] | undefined
}

/** Documentation of one tool; which parts are there depends on the level and the budget. */
export interface ToolDoc {
  /** `namespace:name`, as in search results. */
  readonly id: string
  readonly version: string
  readonly title?: string
  /** The description's first sentences, 200 characters at most. */
  readonly summary: string
  readonly tags?: readonly string[]
  readonly effect: EffectClass
  readonly deprecated?: Deprecation
  /** Of the level `types` alone: a TypeScript declaration, as programs over tools call the tool. */
  readonly declaration?: string
  /** From here on: `schema`. The digest goes into a call's `schemaDigest`. */
  readonly digest?: string
  readonly inputSchema?: JsonSchema
  readonly outputSchema?: JsonSchema
  readonly required?: readonly string[]
  readonly defaults?: { readonly [argument: string]: Json }
  /** From here on: `full`. */
  readonly description?: string
  readonly annotations?: ToolAnnotations
  readonly docs?: string
  readonly examples?: readonly ToolExample[]
  readonly permissions?: readonly string[]
  readonly versions?: readonly string[]
  /** Parts that the level has and the budget had no room for. */
  readonly omitted: readonly (keyof ToolDoc)[]
}

/** What goes first when the budget is short: what a caller can best do without. The rest always stays. */
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

/** Documents a tool at one of four levels, within a token budget when there is one. Throws INPUT_INVALID. */
export function describeTool(entry: CatalogEntry, options: DescribeOptions = {}): ToolDoc {
  checkOptions(options)
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

/** Tokens of a value's JSON text at four characters each: an estimate for budgets, not a tokenizer. */
export function estimateTokens(value: unknown): number {
  return Math.ceil((JSON.stringify(value)?.length ?? 0) / 4)
}

function checkOptions({ level, maxTokens, examples }: DescribeOptions): void {
  const issues: Issue[] = []
  if (level !== undefined && !levels.includes(level)) {
    const hint = typeof level === 'string' ? didYouMean(level, levels) : ''
    issues.push({ path: '/level', message: `must be summary, types, schema or full${hint}` })
  }
  if (maxTokens !== undefined && !isWhole(maxTokens, 1)) {
    issues.push({ path: '/maxTokens', message: 'must be a whole number above 0' })
  }
  if (examples !== undefined && !isWhole(examples, 0)) {
    issues.push({ path: '/examples', message: 'must be a whole number, 0 or more' })
  }
  if (issues.length > 0) throw inputFault('question', issues)
}

function isWhole(value: unknown, least: number): boolean {
  return Number.isSafeInteger(value) && Number(value) >= least
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
 * Leaves parts out, in order, until the rest fits, then puts those back that still have room, the most valuable first:
 * a long part that had to go may have left room for a short one that went before it.
 * What must stay may still be more than the budget.
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

/** The first paragraph's whole sentences up to 200 characters, or its first words when even one is too long. */
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
 * TypeScript declarations of tools as programs call them, `tools.namespace.name(args)`, by namespace and name. Whatever a
 * tool says of itself is data in it: a quoted name, a type or a line of a comment. Namespaces are there without tools too.
 */
export function toolDeclarations(tools: readonly DeclaredTool[], namespaces: readonly string[] = []): string {
  const spaces = Map.groupBy(tools, ({ namespace }) => namespace)
  for (const namespace of namespaces) if (!spaces.has(namespace)) spaces.set(namespace, [])
  const texts = [...spaces].sort(([a], [b]) => (a < b ? -1 : 1)).map(([namespace, own]) => spaceText(namespace, own))
  return `declare const tools: {\n${texts.join('')}}\n`
}

/** What a tool takes and gives, as types. */
export function toolTypes({ inputSchema, outputSchema }: DeclaredTool, indent = ''): { args: string; output: string } {
  return {
    args: typeText(inputSchema, { anything: 'unknown', indent }),
    output: outputSchema === undefined ? 'any' : typeText(outputSchema, { anything: 'any', indent }),
  }
}

/** Whether a tool can be called without arguments. */
export function takesNothing({ inputSchema }: DeclaredTool): boolean {
  if (typeof inputSchema !== 'object' || inputSchema === null) return true
  const { required } = inputSchema as { readonly required?: unknown }
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
