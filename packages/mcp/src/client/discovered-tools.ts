import { type Tool, type ToolAnnotations, ToolError, type ToolIcon } from '@gantry/contract'
import { isComposite, isObject } from '@gantry/contract/internal/json'
import { quote } from '@gantry/core/internal/ids/quote'
import { toolNameFault } from '@gantry/core/internal/ids/tool-id'
import { copyJson, JsonError } from '@gantry/core/internal/json/plain'
import { pause } from '@gantry/core/internal/resilience/retry'
import type { McpSubscription, StandardSchemaV1 } from '@modelcontextprotocol/client'
import type { Connection } from './connection.ts'
import { plainText } from './logs.ts'
import type { McpSettings } from './settings.ts'

/** A tool as the server describes it: untrusted. */
type ForeignTool = { readonly [key: string]: unknown }

interface Listed {
  readonly tools: readonly ForeignTool[]
  /** Whether the server has more tools than the limit. */
  readonly cut: boolean
}

const mostPages = 100

/** One page, parsed leniently, so that one malformed tool does not affect the others. */
const page: StandardSchemaV1<unknown, { readonly tools: readonly unknown[]; readonly nextCursor?: string }> = {
  '~standard': {
    version: 1,
    vendor: 'gantry',
    validate: (value) => {
      const { tools, nextCursor }: { readonly [member: string]: unknown } = isObject(value) ? value : {}
      if (!Array.isArray(tools)) return { issues: [{ message: 'the answer has no list of tools' }] }
      return { value: typeof nextCursor === 'string' ? { tools, nextCursor } : { tools } }
    },
  },
}

/** Reads all pages of the server's tools; rejects when the pages do not end. */
export async function listTools(connection: Connection, settings: McpSettings, signal: AbortSignal): Promise<Listed> {
  const { client } = connection
  if (client.getServerCapabilities()?.tools === undefined) return { tools: [], cut: false }
  const tools: ForeignTool[] = []
  const cursors = new Set<string>()
  let cursor: string | undefined
  let characters = 0
  do {
    const params = cursor === undefined ? {} : { cursor }
    const options = { signal, timeout: settings.timeoutMs }
    const answer = await client.request({ method: 'tools/list', params }, page, options)
    // Each page is limited like a message; all pages together have the same limit.
    characters += JSON.stringify(answer.tools).length
    if (characters > settings.maxResponseBytes) throw tooLong(settings.name, settings.maxResponseBytes)
    tools.push(...answer.tools.filter((tool) => isComposite(tool)))
    if (tools.length > settings.maxTools) return { tools: tools.slice(0, settings.maxTools), cut: true }
    cursor = answer.nextCursor
    if (cursor !== undefined && cursors.has(cursor)) throw endless(settings.name)
    if (cursor !== undefined) cursors.add(cursor)
    if (cursors.size >= mostPages) throw endless(settings.name)
  } while (cursor !== undefined)
  return { tools, cut: false }
}

function tooLong(server: string, most: number): ToolError {
  return new ToolError('BACKEND_FAILED', `The list of tools of the MCP server ${server} is larger than ${most} bytes.`)
}

function endless(server: string): ToolError {
  return new ToolError('BACKEND_FAILED', `The list of tools of the MCP server ${server} does not end.`)
}

const longestDescription = 10_000
const longestTitle = 200
const mostIcons = 10
const longestIcon = 100_000
const hints = ['readOnlyHint', 'destructiveHint', 'idempotentHint', 'openWorldHint'] as const

interface Translated {
  readonly tools: readonly Tool[]
  /** A sentence for each omitted tool. */
  readonly left: readonly string[]
}

/** Translates the tools of a server; `overHttp` when arguments may be repeated in headers. */
export function translateTools(foreign: readonly ForeignTool[], settings: McpSettings, overHttp: boolean): Translated {
  const tools = new Map<string, Tool>()
  const left: string[] = []
  for (const one of foreign) {
    const shown = typeof one.name === 'string' ? quote(one.name, longestDescription) : 'without a name'
    if (typeof one.name === 'string' && !settings.wants(one.name)) continue
    const copied = plainCopy(one)
    const made = typeof copied === 'string' ? copied : translate(copied, settings, overHttp)
    const key = typeof made === 'string' ? '' : made.name.toLowerCase()
    // `exclude` also applies to the normalized name.
    if (typeof made !== 'string' && !settings.wants(made.name)) continue
    if (typeof made === 'string')
      left.push(`The tool ${shown} of the MCP server ${settings.name} was left out: ${made}.`)
    else if (tools.has(key))
      left.push(`The tool ${shown} of the MCP server ${settings.name} was left out: its name is taken.`)
    else tools.set(key, made)
  }
  return { tools: [...tools.values()], left }
}

/** A copy within the limits of depth and size, or the reason why there is none. */
function plainCopy(foreign: ForeignTool): ForeignTool | string {
  try {
    return copyJson(foreign, { dropped: { count: 0 } }) as ForeignTool
  } catch (error) {
    return error instanceof JsonError ? `its description ${error.message}` : 'its description cannot be read'
  }
}

/** The tool, or the reason why it is invalid. */
function translate(foreign: ForeignTool, settings: McpSettings, overHttp: boolean): Tool | string {
  const { name: original, inputSchema, outputSchema } = foreign
  if (typeof original !== 'string') return 'its name is not a string'
  const name = original.replaceAll(/[^A-Za-z0-9_.-]/gu, '_')
  const fault = toolNameFault(name)
  if (fault !== undefined) return `its name ${fault}`
  if (!isObject(inputSchema)) return 'its input schema is not an object'
  const hasOutput = isObject(outputSchema)
  if (outputSchema !== undefined && !hasOutput) return 'its output schema is not an object'
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
    inputSchema,
    ...(hasOutput ? { outputSchema } : {}),
    ...(annotations === undefined ? {} : { annotations }),
    ...(icons.length === 0 ? {} : { icons }),
    backends: [{ kind: 'mcp', name: settings.name, tool: original }],
    // The server's hints are displayed but never trusted: only the host decides which calls may be retried.
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

/** Only icons that are inline or behind HTTPS; Gantry does not fetch them. */
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

const mark = 'x-mcp-header'
const token = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/
const carried: readonly unknown[] = ['string', 'integer', 'boolean']

type Node = { readonly [key: string]: unknown }

/**
 * The rule that the `x-mcp-header` marks of a tool break (2026-07-28), or undefined. A client must omit a tool whose
 * marks are invalid: a mark is a header name, no two are equal, and each is on a string, integer or boolean that is
 * reached through `properties` only.
 */
export function headerMarkFault(inputSchema: unknown): string | undefined {
  const seen = new Set<string>()
  const open: { readonly node: unknown; readonly direct: boolean }[] = [{ node: inputSchema, direct: false }]
  while (open.length > 0) {
    const { node, direct } = open.pop() ?? {}
    if (!isComposite(node)) continue
    const fault = mark in node ? markFault(node, direct === true, seen) : undefined
    if (fault !== undefined) return fault
    // The root schema is reachable, but must not be marked.
    const reached = direct === true || node === inputSchema
    for (const [key, child] of Object.entries(node)) {
      if (key === mark || key === 'enum' || key === 'const' || key === 'default' || key === 'examples') continue
      const members = key === 'properties' && isComposite(child) ? Object.values(child) : [child]
      for (const member of members) open.push({ node: member, direct: reached && key === 'properties' })
    }
  }
  return undefined
}

function markFault(node: Node, direct: boolean, seen: Set<string>): string | undefined {
  const name = node[mark]
  if (!direct) return `${mark} is where no argument is reached by properties alone`
  if (typeof name !== 'string' || !token.test(name)) return `${mark} is not the name of a header`
  if (!carried.includes(node.type)) return `${mark} is on something that is not a string, integer or boolean`
  const key = name.toLowerCase()
  if (seen.has(key)) return `${mark} names the same header twice`
  seen.add(key)
  return undefined
}

const shortestGapMs = 1_000
const longestGapMs = 60_000

/** Coalesces requests into refreshes with a minimum interval. */
interface Refresher {
  request(): void
  stop(): void
}

/**
 * Runs `refresh` at once for the first request, and at least a second apart for later ones. `refresh` resolves with
 * whether anything changed: for a server that announces changes and has none, the interval doubles up to a minute.
 * `refresh` must not reject.
 */
export function createRefresher(refresh: () => Promise<boolean>): Refresher {
  let gapMs = shortestGapMs
  let next = 0
  let running = false
  let requested = false
  let timer: NodeJS.Timeout | undefined
  let stopped = false

  const run = async (): Promise<void> => {
    timer = undefined
    running = true
    requested = false
    const changed = await refresh()
    gapMs = changed ? shortestGapMs : Math.min(longestGapMs, gapMs * 2)
    next = Date.now() + gapMs
    running = false
    if (requested) schedule()
  }
  const schedule = (): void => {
    if (stopped || timer !== undefined) return
    timer = setTimeout(() => void run(), Math.max(0, next - Date.now()))
    timer.unref()
  }
  return {
    request() {
      if (running) requested = true
      else schedule()
    },
    stop() {
      stopped = true
      clearTimeout(timer)
    },
  }
}

/**
 * Since 2026-07-28 changes are announced on a stream that the client opens. The SDK opens the first one with the
 * connection; this function opens the next when one ends, and reports that a change may have been missed. Never rejects.
 */
export async function keepSubscribed(connection: Connection, missed: () => void, life: AbortSignal): Promise<void> {
  const { client } = connection
  let open: McpSubscription | undefined = client.autoOpenedSubscription
  let gapMs = shortestGapMs
  if (open === undefined) return
  while (connection.ended() === undefined && !life.aborted) {
    if (open !== undefined && (await open.closed) === 'local') return
    try {
      await pause(gapMs, life)
      open = await client.listen({ toolsListChanged: true }, { signal: life })
      gapMs = shortestGapMs
      missed()
    } catch {
      open = undefined
      gapMs = Math.min(longestGapMs, gapMs * 2)
    }
  }
}
