import type { Json } from '@gantry/contract'
import { type Adapter, type AdapterOptions, checkAdapterOptions, defaultMaxChars } from './adapter.ts'
import { listOf, member, readCalls, valueOnly } from './calls.ts'
import type { ReportLoss } from './clean.ts'
import { fromGemini, geminiSchema } from './gemini-schema.ts'
import { isNode, type Node } from './reduce.ts'
import { render, textOf } from './render.ts'
import { readTools, writeTools } from './tools.ts'

export interface GeminiFunction {
  name: string
  description: string
  /** Absent for a function without parameters. */
  parameters?: Node
}

/** A tool of the Gemini API: one list of functions. */
export interface GeminiTool {
  functionDeclarations: GeminiFunction[]
}

/** The result of one call; all results of one turn are the parts of one content, as many as there were calls. */
export interface GeminiResult {
  functionResponse: {
    id?: string
    name: string
    response: { output: Json } | { error: string }
    parts?: { inlineData: { mimeType: string; data: string } }[]
  }
}

const imageTypes: readonly unknown[] = ['image/png', 'image/jpeg', 'image/webp']
const argumentName = /^[A-Za-z_][A-Za-z0-9_]{0,63}$/

/** Gemini's generateContent: `calls` takes a content of the model, or its parts. */
export function gemini(options: AdapterOptions = {}): Adapter<GeminiTool[], GeminiResult> {
  checkAdapterOptions('gemini', options)
  const { clean = true, maxChars = defaultMaxChars } = options
  return {
    format: 'gemini',
    tools(entries) {
      const writing = { format: 'Gemini', clean, fields: [] }
      const written = writeTools(entries, writing, ({ name, description, inputSchema }, report): GeminiFunction => {
        const parameters = geminiSchema(inputSchema, '/inputSchema', report)
        const properties = isNode(parameters.properties) ? Object.keys(parameters.properties) : []
        for (const argument of properties) {
          if (argumentName.test(argument)) continue
          const message = 'Gemini may refuse a name that is not made of 1 to 64 letters, digits and `_`.'
          report({ path: '/inputSchema/properties', keyword: 'name', done: 'kept', message })
        }
        return properties.length === 0
          ? withoutParameters(name, description, parameters, report)
          : { name, description, parameters }
      })
      return { ...written, tools: [{ functionDeclarations: [...written.tools] }] }
    },
    read: (tools, how = {}) =>
      readTools(functionsOf(tools), how, clean, ({ name, description, parameters, response, ...rest }, report) => ({
        name,
        description,
        inputSchema: parameters === undefined ? {} : fromGemini(parameters, '/parameters', report),
        ...(response === undefined ? {} : { outputSchema: fromGemini(response, '/response', report) }),
        rest,
      })),
    calls: (message, names) =>
      readCalls(
        () =>
          partsOf(message)
            .map((part) => member(part, 'functionCall'))
            .filter((call) => call !== undefined)
            .map((call) => ({
              id: member(call, 'id'),
              name: member(call, 'name'),
              args: valueOnly(member(call, 'args')),
            })),
        names,
        false,
      ),
    result({ callId, name }, outcome) {
      const { isError, parts } = render(outcome, {
        maxChars,
        holds: (part) => part.type === 'image' && imageTypes.includes(part.mimeType),
      })
      const images = parts.flatMap((part) =>
        part.type === 'image' ? [{ inlineData: { mimeType: part.mimeType, data: part.data } }] : [],
      )
      const text = textOf(parts)
      return {
        functionResponse: {
          ...(callId === undefined ? {} : { id: callId }),
          name,
          response: isError ? { error: text } : { output: outputOf(outcome, text) },
          ...(images.length === 0 ? {} : { parts: images }),
        },
      }
    },
  }
}

/** The API refuses an object without properties, so that a function with none has no parameters at all. */
function withoutParameters(name: string, description: string, parameters: Node, report: ReportLoss): GeminiFunction {
  const { type: _type, description: note, ...lost } = parameters
  for (const keyword of Object.keys(lost)) {
    const message = `Gemini takes no parameters without properties; ${keyword} was left out.`
    report({ path: `/inputSchema/${keyword}`, keyword, done: 'dropped', message })
  }
  if (note === undefined) return { name, description }
  const message = 'Gemini takes no parameters without properties; the description says it.'
  report({ path: '/inputSchema/description', keyword: 'description', done: 'described', message })
  return { name, description: `${description}\n${note}` }
}

/** The output itself where its text was not cut or written by the tool. */
function outputOf(outcome: unknown, text: string): Json {
  const output = member(outcome, 'output') as Json
  return JSON.stringify(output) === text ? output : text
}

function functionsOf(tools: unknown): unknown {
  if (!Array.isArray(tools)) return tools
  return tools.flatMap((tool): unknown[] => {
    const list = member(tool, 'functionDeclarations')
    return Array.isArray(list) ? list : [tool]
  })
}

function partsOf(message: unknown): readonly unknown[] {
  if (Array.isArray(message)) return message
  const parts = member(message, 'parts')
  return parts === undefined ? [] : listOf(parts, 'parts')
}
