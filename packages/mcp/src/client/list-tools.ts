import { ToolError } from '@gantry/contract'
import type { StandardSchemaV1 } from '@modelcontextprotocol/client'
import type { Connection } from './connection.ts'
import type { McpSettings } from './settings.ts'

/** A tool as the server describes it: nothing of it is believed. */
export type ForeignTool = { readonly [key: string]: unknown }

export interface Listed {
  readonly tools: readonly ForeignTool[]
  /** There were more than the limit. */
  readonly cut: boolean
}

const mostPages = 100

/** One page, read loosely, so that one tool that is badly described does not take the others with it. */
const page: StandardSchemaV1<unknown, { readonly tools: readonly unknown[]; readonly nextCursor?: string }> = {
  '~standard': {
    version: 1,
    vendor: 'gantry',
    validate: (value) => {
      const { tools, nextCursor } = value as { readonly tools?: unknown; readonly nextCursor?: unknown }
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
    // Each page is bounded as a message; together they may be no more than one.
    characters += JSON.stringify(answer.tools).length
    if (characters > settings.maxResponseBytes) throw tooLong(settings.name, settings.maxResponseBytes)
    tools.push(
      ...answer.tools.filter((tool) => typeof tool === 'object' && tool !== null).map((tool) => tool as ForeignTool),
    )
    if (tools.length > settings.maxTools) return { tools: tools.slice(0, settings.maxTools), cut: true }
    cursor = answer.nextCursor
    if (cursor !== undefined && cursors.has(cursor)) throw endless(settings.name)
    if (cursor !== undefined) cursors.add(cursor)
    if (cursors.size >= mostPages) throw endless(settings.name)
  } while (cursor !== undefined)
  return { tools, cut: false }
}

function tooLong(server: string, most: number): ToolError {
  return new ToolError('BACKEND_FAILED', `The list of tools of the MCP server ${server} is longer than ${most} bytes.`)
}

function endless(server: string): ToolError {
  return new ToolError('BACKEND_FAILED', `The list of tools of the MCP server ${server} does not end.`)
}
