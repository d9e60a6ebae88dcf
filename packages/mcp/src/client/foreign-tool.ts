import type { JsonSchema, Tool, ToolAnnotations, ToolIcon } from '@gantry/contract'
import { quote } from '@gantry/core/internal/ids/quote'
import { toolNameFault } from '@gantry/core/internal/ids/tool-id'
import { copyJson } from '@gantry/core/internal/json/copy'
import { JsonError } from '@gantry/core/internal/json/limits'
import { headerMarkFault } from './header-marks.ts'
import type { ForeignTool } from './list-tools.ts'
import { plainText } from './log-lines.ts'
import type { McpSettings } from './settings.ts'

const longestDescription = 10_000
const longestTitle = 200
const mostIcons = 10
const longestIcon = 100_000
const hints = ['readOnlyHint', 'destructiveHint', 'idempotentHint', 'openWorldHint'] as const

export interface Translated {
  readonly tools: readonly Tool[]
  /** Sentences about the tools that were left out. */
  readonly left: readonly string[]
}

/** Makes tools of what a server describes; `overHttp` when arguments may have to go into headers. */
export function translateTools(foreign: readonly ForeignTool[], settings: McpSettings, overHttp: boolean): Translated {
  const tools = new Map<string, Tool>()
  const left: string[] = []
  for (const one of foreign) {
    const shown = typeof one.name === 'string' ? quote(one.name, longestDescription) : 'without a name'
    if (typeof one.name === 'string' && !settings.wants(one.name)) continue
    const copied = plainCopy(one)
    const made = typeof copied === 'string' ? copied : translate(copied, settings, overHttp)
    const key = typeof made === 'string' ? '' : made.name.toLowerCase()
    // What the host keeps out is kept out under the name it would be called by, too.
    if (typeof made !== 'string' && !settings.wants(made.name)) continue
    if (typeof made === 'string')
      left.push(`The tool ${shown} of the MCP server ${settings.name} was left out: ${made}.`)
    else if (tools.has(key))
      left.push(`The tool ${shown} of the MCP server ${settings.name} was left out: its name is taken.`)
    else tools.set(key, made)
  }
  return { tools: [...tools.values()], left }
}

/** A copy within limits, so that nothing that is too deep or too large goes further; or what is wrong with it. */
function plainCopy(foreign: ForeignTool): ForeignTool | string {
  try {
    return copyJson(foreign, { dropped: { count: 0 } }) as ForeignTool
  } catch (error) {
    return error instanceof JsonError ? `its description ${error.message}` : 'its description cannot be read'
  }
}

/** The tool, or what is wrong with it. */
function translate(foreign: ForeignTool, settings: McpSettings, overHttp: boolean): Tool | string {
  const { name: original, inputSchema, outputSchema } = foreign
  if (typeof original !== 'string') return 'its name is no text'
  const name = original.replaceAll(/[^A-Za-z0-9_.-]/gu, '_')
  const fault = toolNameFault(name)
  if (fault !== undefined) return `its name ${fault}`
  if (!isObject(inputSchema)) return 'its input schema is no object'
  if (outputSchema !== undefined && !isObject(outputSchema)) return 'its output schema is no object'
  const marks = overHttp ? headerMarkFault(inputSchema) : undefined
  if (marks !== undefined) return marks
  const title = titleOf(foreign)
  const icons = iconsOf(foreign.icons)
  const annotations = annotationsOf(foreign.annotations)
  return {
    namespace: settings.name,
    name,
    version: '1.0.0',
    ...(title === undefined ? {} : { title }),
    description: descriptionOf(foreign.description, original, settings.name),
    inputSchema: inputSchema as JsonSchema,
    ...(outputSchema === undefined ? {} : { outputSchema: outputSchema as JsonSchema }),
    ...(annotations === undefined ? {} : { annotations }),
    ...(icons.length === 0 ? {} : { icons }),
    backends: [{ kind: 'mcp', name: settings.name, tool: original }],
    // The server's hints are shown but never believed: only the host knows what may be repeated.
    effect: settings.effectOf(original),
  }
}

function descriptionOf(given: unknown, tool: string, server: string): string {
  const text = typeof given === 'string' ? given.trim() : ''
  if (text === '') return `The tool ${plainText(tool, 128)} of the MCP server ${server}, which does not describe it.`
  return text.length > longestDescription ? `${text.slice(0, longestDescription - 1).toWellFormed()}…` : text
}

function titleOf({ title, annotations }: ForeignTool): string | undefined {
  const given = title ?? (isObject(annotations) ? annotations.title : undefined)
  return typeof given === 'string' && given.trim() !== '' ? plainText(given.trim(), longestTitle) : undefined
}

function annotationsOf(given: unknown): ToolAnnotations | undefined {
  if (!isObject(given)) return undefined
  const found = hints.flatMap((hint) => (typeof given[hint] === 'boolean' ? [[hint, given[hint]] as const] : []))
  const title = typeof given.title === 'string' ? { title: plainText(given.title, longestTitle) } : {}
  return { ...title, ...Object.fromEntries(found) }
}

/** Only pictures that are in the text or behind HTTPS; nobody here fetches them. */
function iconsOf(given: unknown): readonly ToolIcon[] {
  if (!Array.isArray(given)) return []
  return given.slice(0, mostIcons).flatMap((icon): ToolIcon[] => {
    if (!isObject(icon) || typeof icon.src !== 'string' || icon.src.length > longestIcon) return []
    const { protocol } = URL.parse(icon.src) ?? {}
    if (protocol !== 'https:' && !(protocol === 'data:' && icon.src.startsWith('data:image/'))) return []
    const sizes = Array.isArray(icon.sizes) ? icon.sizes.filter((size) => typeof size === 'string').slice(0, 20) : []
    return [
      {
        src: icon.src,
        ...(typeof icon.mimeType === 'string' ? { mimeType: icon.mimeType.slice(0, 100) } : {}),
        ...(sizes.length === 0 ? {} : { sizes }),
      },
    ]
  })
}

function isObject(value: unknown): value is { readonly [key: string]: unknown } {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
