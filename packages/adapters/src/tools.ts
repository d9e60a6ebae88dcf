import { type JsonSchema, type Tool, ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import type { CatalogEntry } from '@gantry/core/internal/catalogs/catalog'
import { quote } from '@gantry/core/internal/ids/quote'
import { namespaceFault, toolNameFault } from '@gantry/core/internal/ids/tool-id'
import { sha256 } from '@gantry/core/internal/json/canonical'
import { copyJson, JsonError } from '@gantry/core/internal/json/plain'
import { escapeSegment } from '@gantry/json-schema/internal/pointer'
import type { AdaptedTools, ForeignTool, Loss, ReadOptions, ReadTools } from './adapter.ts'
import { cleanSchema, cleanText, type ReportLoss } from './clean.ts'
import { type Names, nameTable } from './names.ts'
import type { Node } from './reduce.ts'

/** The parts of a tool in one format; unknown members are reported as losses. */
interface ForeignShape {
  readonly name: unknown
  readonly description?: unknown
  readonly title?: unknown
  readonly inputSchema?: unknown
  readonly outputSchema?: unknown
  readonly annotations?: unknown
  readonly icons?: unknown
  /** Everything else that the format says about the tool. */
  readonly rest: Node
}

const limits = { bytes: 16_777_216, depth: 72, nodes: 1_000_000 }
const mostTools = 10_000

/** Reads a foreign list of tools; `shape` reads one, and returns undefined for a tool that is not the caller's function. */
export function readTools(
  list: unknown,
  { namespace = 'foreign', names }: ReadOptions,
  clean: boolean,
  shape: (tool: Node, report: ReportLoss) => ForeignShape | undefined,
): ReadTools {
  const fault = namespaceFault(namespace)
  if (fault !== undefined) throw new ToolError('TOOL_INVALID', `The namespace ${quote(namespace)} ${fault}.`)
  const warnings: Loss[] = []
  const tools = plainList(list).flatMap((item, index): ForeignTool[] => {
    if (!isObject(item)) throw invalid(index, 'is not an object')
    const losses: Omit<Loss, 'tool'>[] = []
    const parts = shape(item, (loss) => losses.push(loss))
    const label = typeof parts?.name === 'string' ? parts.name.slice(0, 256) : `#${index}`
    const tool =
      parts === undefined ? [] : [readTool(parts, index, namespace, names, clean, (loss) => losses.push(loss))]
    warnings.push(...losses.map((loss) => ({ tool: label, ...loss })))
    return tool
  })
  return { tools, warnings }
}

function plainList(list: unknown): readonly unknown[] {
  try {
    const copy = copyJson(list, { limits })
    if (Array.isArray(copy) && copy.length <= mostTools) return copy
    throw new ToolError('TOOL_INVALID', `The tools must be a list of ${mostTools} at most.`)
  } catch (error) {
    if (!(error instanceof JsonError)) throw error
    throw new ToolError('TOOL_INVALID', `The tools at ${error.path || 'the top'} cannot be read: ${error.message}.`, {
      cause: error,
    })
  }
}

function readTool(
  parts: ForeignShape,
  index: number,
  namespace: string,
  names: ReadOptions['names'],
  clean: boolean,
  report: ReportLoss,
): ForeignTool {
  const { name, description, title, inputSchema = {}, outputSchema, annotations, icons, rest } = parts
  if (typeof name !== 'string' || name === '') throw invalid(index, 'has no name')
  if (!isObject(inputSchema)) throw invalid(index, 'has no schema for its arguments')
  if (inputSchema.type !== undefined && inputSchema.type !== 'object') throw invalid(index, 'takes no object')
  for (const keyword of Object.keys(rest)) {
    const message = `A tool has no ${quote(keyword)}; it was left out.`
    report({ path: `/${escapeSegment(keyword)}`, keyword, done: 'dropped', message })
  }
  const show = clean ? cleanSchema : (schema: JsonSchema) => schema
  const prose = (text: string, keyword: string): string =>
    clean ? cleanText(text, `/${keyword}`, keyword, true, report) : text
  return {
    ...identityOf(name, namespace, names, report),
    description: prose(filled(description) ?? filled(title) ?? name, 'description'),
    ...(filled(title) === undefined ? {} : { title: prose(String(title), 'title') }),
    inputSchema: show({ ...inputSchema, type: 'object' }, '/inputSchema', report),
    ...(outputSchema === undefined ? {} : { outputSchema: show(outputSchema as JsonSchema, '/outputSchema', report) }),
    ...(isObject(annotations) ? { annotations: annotations as NonNullable<Tool['annotations']> } : {}),
    ...(Array.isArray(icons) ? { icons: icons as NonNullable<Tool['icons']> } : {}),
  }
}

function filled(value: unknown): string | undefined {
  return typeof value === 'string' && value.trim() !== '' ? value : undefined
}

/** The tool that the name was made from, or a name of its own in the namespace. */
function identityOf(
  name: string,
  namespace: string,
  names: ReadOptions['names'],
  report: ReportLoss,
): Pick<Tool, 'namespace' | 'name' | 'version'> {
  const known = names?.find(name)?.tool
  if (known !== undefined) return { namespace: known.namespace, name: known.name, version: known.version }
  if (toolNameFault(name) === undefined) return { namespace, name, version: '1.0.0' }
  const words = name.replace(/[^A-Za-z0-9_-]+/g, '_').slice(0, 100)
  const legal = `${/^[A-Za-z0-9_]/.test(words) ? words : `_${words}`}-${sha256(name).slice(0, 12)}`
  report({ path: '/name', keyword: 'name', done: 'rewritten', message: `The name ${quote(name)} cannot be a tool's.` })
  return { namespace, name: legal, version: '1.0.0' }
}

function invalid(index: number, reason: string): ToolError {
  return new ToolError('TOOL_INVALID', `The tool at /${index} ${reason}.`, {
    details: { issues: [{ path: `/${index}`, message: reason }] },
  })
}

/** A tool for the format: its format name, and its texts without invisible characters. */
interface ShownTool {
  readonly name: string
  readonly description: string
  readonly title?: string
  readonly inputSchema: JsonSchema
  readonly outputSchema?: JsonSchema
  readonly tool: Tool
}

/** Descriptive parts of a tool; parts about its execution never leave the host. */
const readerFields = ['title', 'outputSchema', 'annotations', 'icons', 'tags', 'docs', 'examples', 'aliases'] as const

type ReaderField = (typeof readerFields)[number]

interface Writing {
  readonly format: string
  readonly clean: boolean
  /** The descriptive parts that the format supports. */
  readonly fields: readonly ReaderField[]
}

/** Writes tools one by one; `write` returns a tool of the format and reports losses of its schemas. */
export function writeTools<T>(
  entries: Iterable<CatalogEntry>,
  writing: Writing,
  write: (shown: ShownTool, report: ReportLoss) => T,
): AdaptedTools<readonly T[]> {
  const names = nameTable(entries)
  const warnings: Loss[] = []
  const tools = names.list.flatMap((name): T[] => {
    const entry = names.find(name)
    if (entry === undefined) return []
    const report: ReportLoss = (loss) => warnings.push({ tool: entry.id, ...loss })
    return [write(show(name, entry.tool, writing, report), report)]
  })
  return { tools, names, warnings }
}

/** The same tools by name, for formats that keep them so. */
export function byName<T>(names: Names, tools: readonly T[]): { [name: string]: T } {
  return Object.fromEntries(
    names.list.flatMap((name, index) => tools.slice(index, index + 1).map((tool): [string, T] => [name, tool])),
  )
}

function show(name: string, tool: Tool, { format, clean, fields }: Writing, report: ReportLoss): ShownTool {
  for (const field of readerFields) {
    if (tool[field] === undefined || fields.includes(field)) continue
    const message = `${format} has no place for ${field}; it was left out.`
    report({ path: `/${field}`, keyword: field, done: 'dropped', message })
  }
  const prose = (text: string, keyword: string): string =>
    clean ? cleanText(text, `/${keyword}`, keyword, true, report) : text
  const schema = (value: JsonSchema, path: string): JsonSchema => (clean ? cleanSchema(value, path, report) : value)
  const { description, title, inputSchema, outputSchema } = tool
  return {
    name,
    description: prose(description, 'description') + deprecation(tool, prose, report, format),
    ...(title === undefined ? {} : { title: prose(title, 'title') }),
    inputSchema: schema(inputSchema, '/inputSchema'),
    ...(outputSchema === undefined ? {} : { outputSchema: schema(outputSchema, '/outputSchema') }),
    tool,
  }
}

function deprecation(
  { deprecated }: Tool,
  prose: (text: string, keyword: string) => string,
  report: ReportLoss,
  format: string,
): string {
  if (deprecated === undefined) return ''
  const message = `${format} has no place for deprecated; the description says it.`
  report({ path: '/deprecated', keyword: 'deprecated', done: 'described', message })
  const instead = deprecated.replacement === undefined ? '' : ` Use ${deprecated.replacement} instead.`
  return `\nDeprecated: ${prose(deprecated.message, 'deprecated')}${instead}`
}
