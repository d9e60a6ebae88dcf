import type { JsonSchema, Tool } from '@gantry/contract'
import type { CatalogEntry } from '@gantry/core/internal/catalogs/catalog'
import type { AdaptedTools, Loss } from './adapter.ts'
import { cleanSchema, cleanText, type Tell } from './clean.ts'
import { type Names, nameTable } from './names.ts'

/** A tool as it may be shown: its name in the format, and its texts without hidden characters. */
export interface ShownTool {
  readonly name: string
  readonly description: string
  readonly title?: string
  readonly inputSchema: JsonSchema
  readonly outputSchema?: JsonSchema
  readonly tool: Tool
}

/** Parts of a tool that are meant for readers; those about running it never leave the host. */
const readerFields = ['title', 'outputSchema', 'annotations', 'icons', 'tags', 'docs', 'examples', 'aliases'] as const

export type ReaderField = (typeof readerFields)[number]

export interface Writing {
  readonly format: string
  readonly clean: boolean
  /** Which parts for readers the format has a place for. */
  readonly fields: readonly ReaderField[]
}

/** Writes tools one by one; `write` gives a tool of the format and tells what of its schemas was lost. */
export function writeTools<T>(
  entries: Iterable<CatalogEntry>,
  writing: Writing,
  write: (shown: ShownTool, tell: Tell) => T,
): AdaptedTools<readonly T[]> {
  const names = nameTable(entries)
  const warnings: Loss[] = []
  const tools = names.list.flatMap((name): T[] => {
    const entry = names.find(name)
    if (entry === undefined) return []
    const tell: Tell = (loss) => warnings.push({ tool: entry.id, ...loss })
    return [write(show(name, entry.tool, writing, tell), tell)]
  })
  return { tools, names, warnings }
}

/** The same tools by name, for formats that keep them so. */
export function byName<T>(names: Names, tools: readonly T[]): { [name: string]: T } {
  return Object.fromEntries(names.list.flatMap((name, index) => (index in tools ? [[name, tools[index] as T]] : [])))
}

function show(name: string, tool: Tool, { format, clean, fields }: Writing, tell: Tell): ShownTool {
  for (const field of readerFields) {
    if (tool[field] === undefined || fields.includes(field)) continue
    const message = `${format} has no place for ${field}; it was left out.`
    tell({ path: `/${field}`, keyword: field, done: 'dropped', message })
  }
  const prose = (text: string, keyword: string): string =>
    clean ? cleanText(text, `/${keyword}`, keyword, true, tell) : text
  const schema = (value: JsonSchema, path: string): JsonSchema => (clean ? cleanSchema(value, path, tell) : value)
  const { description, title, inputSchema, outputSchema } = tool
  return {
    name,
    description: prose(description, 'description') + deprecation(tool, prose, tell, format),
    ...(title === undefined ? {} : { title: prose(title, 'title') }),
    inputSchema: schema(inputSchema, '/inputSchema'),
    ...(outputSchema === undefined ? {} : { outputSchema: schema(outputSchema, '/outputSchema') }),
    tool,
  }
}

function deprecation(
  { deprecated }: Tool,
  prose: (text: string, keyword: string) => string,
  tell: Tell,
  format: string,
): string {
  if (deprecated === undefined) return ''
  const message = `${format} has no place for deprecated; the description says it.`
  tell({ path: '/deprecated', keyword: 'deprecated', done: 'described', message })
  const instead = deprecated.replacement === undefined ? '' : ` Use ${deprecated.replacement} instead.`
  return `\nDeprecated: ${prose(deprecated.message, 'deprecated')}${instead}`
}
