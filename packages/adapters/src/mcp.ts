import { type Content, type Json, type JsonSchema, type Tool, ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { oneOf } from '@gantry/core/internal/options/option'
import { checkOptions, optionsCheck } from '@gantry/core/internal/options/options'
import { type Adapter, type AdapterOptions, adapterMembers } from './adapter.ts'
import { malformed, member, readCalls, valueOnly } from './calls.ts'
import type { ReportLoss } from './clean.ts'
import { type Node, withObjectSchemas } from './reduce.ts'
import { render } from './render.ts'
import { readTools, writeTools } from './tools.ts'

/** A tool of the Model Context Protocol. */
export interface McpTool {
  name: string
  title?: string
  description: string
  inputSchema: Node
  outputSchema?: Node
  annotations?: NonNullable<Tool['annotations']>
  icons?: NonNullable<Tool['icons']>
}

/** The result of `tools/call`. */
export interface McpResult {
  content: Content[]
  structuredContent?: Json
  isError?: true
}

export interface McpOptions extends AdapterOptions {
  /** The revision that the other side speaks; before 2026-07-28 structured output is an object. `2025-11-25` when absent. */
  readonly revision?: '2025-11-25' | '2026-07-28'
}

const optionsShape = optionsCheck<McpOptions>({
  members: { ...adapterMembers, revision: oneOf('2025-11-25', '2026-07-28') },
})

/** The Model Context Protocol: `calls` takes the params of `tools/call`, or the whole request. */
export function mcp(options: McpOptions = {}): Adapter<McpTool[], McpResult> {
  checkOptions('options of mcp', optionsShape, options)
  const { clean = true, maxChars, revision = '2025-11-25' } = options
  const objectsOnly = revision === '2025-11-25'
  return {
    format: 'mcp',
    tools(entries) {
      const fields = ['title', 'outputSchema', 'annotations', 'icons'] as const
      const written = writeTools(entries, { format: 'MCP', clean, fields }, (shown, report): McpTool => {
        const { name, title, description, inputSchema, tool } = shown
        const outputSchema = outputOf(shown.outputSchema, objectsOnly, report)
        return {
          name,
          ...(title === undefined ? {} : { title }),
          description,
          inputSchema: withObjectSchemas(inputSchema),
          ...(outputSchema === undefined ? {} : { outputSchema }),
          ...(tool.annotations === undefined ? {} : { annotations: structuredClone(tool.annotations) }),
          ...(tool.icons === undefined ? {} : { icons: structuredClone(tool.icons) }),
        }
      })
      return { ...written, tools: [...written.tools] }
    },
    read: (tools, how = {}) =>
      readTools(member(tools, 'tools') ?? tools, how, clean, (tool) => {
        const { name, title, description, inputSchema, outputSchema, annotations, icons, ...rest } = tool
        return { name, title, description, inputSchema: inputSchema ?? null, outputSchema, annotations, icons, rest }
      }),
    calls: (message, names) =>
      readCalls(
        () => {
          const isRequest = member(message, 'method') !== undefined
          if (isRequest && member(message, 'method') !== 'tools/call') throw malformed('it is not a tools/call request')
          const params = isRequest ? member(message, 'params') : message
          const args = member(params, 'arguments')
          const id = isRequest ? member(message, 'id') : undefined
          return [
            {
              id: typeof id === 'number' ? String(id) : id,
              name: member(params, 'name'),
              args: valueOnly(args),
            },
          ]
        },
        names,
        false,
      ),
    result(_call, outcome) {
      const { isError, parts } = render(outcome, { maxChars, holds: () => true })
      const structured = isError ? undefined : structuredOf(ToolError.is(outcome) ? null : outcome.output, objectsOnly)
      return {
        content: parts.map((part) => structuredClone(part)),
        ...(structured === undefined ? {} : { structuredContent: structured }),
        ...(isError ? { isError: true } : {}),
      }
    },
  }
}

/** The dialect that MCP assumes when a schema names none. */
const assumedDialect = 'https://json-schema.org/draft/2020-12/schema'
/** Keywords on which validators of earlier clients throw, which makes them reject the whole list. */
const unreadable = /"\$(?:id|anchor|dynamicRef|dynamicAnchor|recursiveRef|recursiveAnchor)":/

function outputOf(schema: JsonSchema | undefined, objectsOnly: boolean, report: ReportLoss): Node | undefined {
  if (schema === undefined) return undefined
  const drop = (message: string): undefined => {
    report({ path: '/outputSchema', keyword: 'outputSchema', done: 'dropped', message })
  }
  if (!isObject(schema) || (objectsOnly && schema.type !== 'object')) {
    return drop('MCP wants the schema of an object here; it was left out.')
  }
  if (objectsOnly && unreadable.test(JSON.stringify(schema))) {
    return drop('Clients of this revision cannot read a schema with `$id` or anchors; it was left out.')
  }
  const { $schema, ...rest } = withObjectSchemas(schema)
  return $schema === undefined || $schema === assumedDialect ? rest : { $schema, ...rest }
}

/** Structured output in addition to the content; absent for a string or no output, which the content already has. */
function structuredOf(output: Json, objectsOnly: boolean): Json | undefined {
  if (isObject(output)) return structuredClone(output)
  return objectsOnly || output === null || typeof output === 'string' ? undefined : structuredClone(output)
}
