import { type Result, ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { callback } from '@gantry/core/internal/options/option'
import { checkOptions, optionsCheck } from '@gantry/core/internal/options/options'
import { type Adapter, type AdapterOptions, adapterMembers } from './adapter.ts'
import { listOf, member, readCalls } from './calls.ts'
import { type Rendered, render, textOf } from './render.ts'
import { byName, readTools, writeTools } from './tools.ts'

export type AiSdkOutputPart =
  | { type: 'text'; text: string }
  | { type: 'file'; mediaType: string; data: { type: 'data'; data: string } }

/** The model output of a result. */
export type AiSdkOutput = { type: 'text' | 'error-text'; value: string } | { type: 'content'; value: AiSdkOutputPart[] }

/** A tool of the AI SDK. Its arguments are not checked there: the executor does it, and the model reads what is wrong. */
export interface AiSdkTool<S> {
  description: string
  title?: string
  inputSchema: S
  /** Gives the whole Result; absent when the adapter was made without `run`. */
  execute?: (input: unknown, options: { readonly abortSignal?: AbortSignal | undefined }) => Promise<Result>
  toModelOutput: (options: { readonly output: unknown }) => AiSdkOutput
}

/** The result of one call, as a part of a `tool` message. */
export interface AiSdkResult {
  type: 'tool-result'
  toolCallId: string
  toolName: string
  output: AiSdkOutput
}

export interface AiSdkOptions<S> extends AdapterOptions {
  /** The function of that name from the `ai` package, so that Gantry needs no package of the SDK. */
  readonly jsonSchema: (schema: never) => S
  /** Runs a call, usually `executor.run`; it must not throw for a call that fails. */
  readonly run?: (
    tool: string,
    args: unknown,
    options: { readonly schemaDigest: string; readonly signal?: AbortSignal },
  ) => Promise<Result>
}

const optionsShape = optionsCheck<AiSdkOptions<unknown>>({
  members: { ...adapterMembers, run: callback, jsonSchema: callback },
})

/** Vercel's AI SDK: `calls` takes tool calls, or a message whose content has them. */
export function aiSdk<S>(options: AiSdkOptions<S>): Adapter<{ [name: string]: AiSdkTool<S> }, AiSdkResult> {
  checkOptions('options of aiSdk', optionsShape, options)
  const { clean = true, maxChars, run, jsonSchema } = options
  const outputOf = (outcome: Result | ToolError): AiSdkOutput =>
    modelOutput(render(outcome, { maxChars, holds: ({ type }) => type === 'image' || type === 'audio' }))
  return {
    format: 'ai-sdk',
    tools(entries) {
      const writing = { format: 'The AI SDK', clean, fields: ['title'] as const }
      const written = writeTools(entries, writing, (shown) => shown)
      const tools = written.tools.map(({ name, description, title, inputSchema }): AiSdkTool<S> => {
        const entry = written.names.find(name)
        const execute: AiSdkTool<S>['execute'] = async (input, { abortSignal }) => {
          if (entry === undefined || run === undefined) throw new ToolError('INTERNAL', `${name} cannot be run.`)
          const signal = abortSignal === undefined ? {} : { signal: abortSignal }
          return run(entry.id, input, { schemaDigest: entry.digest, ...signal })
        }
        return {
          description,
          ...(title === undefined ? {} : { title }),
          inputSchema: jsonSchema(structuredClone(inputSchema) as never),
          ...(run === undefined ? {} : { execute }),
          toModelOutput: ({ output }) => outputOf(output as Result),
        }
      })
      return { ...written, tools: byName(written.names, tools) }
    },
    read: (tools, how = {}) =>
      readTools(listed(tools), how, clean, ({ name, description, title, inputSchema, ...rest }) => {
        return { name, description, title, inputSchema, rest }
      }),
    calls: (message, names) =>
      readCalls(
        () =>
          callsOf(message).map((call) => ({
            id: member(call, 'toolCallId'),
            name: member(call, 'toolName'),
            args: member(call, 'input'),
          })),
        names,
        true,
      ),
    result: ({ callId = '', name }, outcome) => {
      return { type: 'tool-result', toolCallId: callId, toolName: name, output: outputOf(outcome) }
    },
  }
}

function modelOutput({ isError, parts }: Rendered): AiSdkOutput {
  if (isError) return { type: 'error-text', value: textOf(parts) }
  if (parts.every(({ type }) => type === 'text')) return { type: 'text', value: textOf(parts) }
  const value = parts.flatMap((part): AiSdkOutputPart[] => {
    if (part.type === 'text') return [part]
    if (part.type !== 'image' && part.type !== 'audio') return []
    return [{ type: 'file', mediaType: part.mimeType, data: { type: 'data', data: part.data } }]
  })
  return { type: 'content', value }
}

/** Tools by name as a list, each with the JSON Schema of its arguments; a definition has no functions. */
function listed(tools: unknown): unknown {
  if (!isObject(tools)) return tools
  return Object.entries(tools).map(([name, tool]) => {
    if (!isObject(tool)) return tool
    const data = Object.entries(tool).filter(([, value]) => typeof value !== 'function')
    return { ...Object.fromEntries(data), name, inputSchema: member(tool.inputSchema, 'jsonSchema') ?? null }
  })
}

function callsOf(message: unknown): readonly unknown[] {
  const list = Array.isArray(message) ? message : (member(message, 'toolCalls') ?? member(message, 'content') ?? [])
  if (typeof list === 'string') return []
  const types: readonly unknown[] = ['tool-call', undefined]
  return listOf(list, 'the tool calls').filter((part) => types.includes(member(part, 'type')))
}
