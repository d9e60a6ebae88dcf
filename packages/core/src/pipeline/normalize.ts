import { type Content, type Json, type JsonObject, ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import type { Measured } from '../backends/backend.ts'
import { parseAnswer } from '../json/parse.ts'
import { copyJson, JsonError } from '../json/plain.ts'
import type { PreparedTool } from './lookup.ts'
import type { Run } from './run.ts'

/**
 * Gives the raw output its shape on the run, and throws when its structure says that the tool failed.
 * Structure decides, never the wording of a text: an MCP `isError`, `{ success: false }`, or a non-zero `exitCode`.
 * A text that is one JSON object or array becomes that value, because most MCP servers answer in such texts and a
 * reference such as `{{prev.number}}` needs the value; the text stays in `content`.
 */
export function normalize(run: Run, tool: PreparedTool, raw: unknown): void {
  const value = plainOutput(run, tool, raw)
  run.output = value
  const { failure: ended, plain } = run.measured ?? nothing
  if (ended !== undefined) throw ended
  if (plain === true) return
  if (isObject(value) && isMcpResult(value)) readMcpResult(run, tool, value)
  else if (typeof value === 'string') readJsonText(run, tool, value)
  const failure = isObject(run.output) ? structuralFailure(run.output) : undefined
  if (failure !== undefined) throw failure
}

/** Only a text in brackets is parsed, because no other can be an object or an array. */
const bracketed = /^[ \t\r\n]*[{[]/

/**
 * Parses a text that is a JSON object or array, unless the tool declares a text. A text that is not JSON, or exceeds the
 * limits of a result, stays a text.
 */
function readJsonText(run: Run, tool: PreparedTool, text: string): void {
  if (!bracketed.test(text) || declaresText(tool, text)) return
  const { dropped } = tool.resultCopy
  dropped.count = 0
  try {
    const copied = copyJson(parseAnswer(text), tool.resultCopy)
    // Parsing resolves escapes, which can hide a secret from the redaction of the text.
    run.output = run.redactor?.value(copied) ?? copied
  } catch {
    return
  }
  if (dropped.count > 0) warnOfDropped(run, dropped.count)
  if (run.content.length === 0) run.content = [{ type: 'text', text }]
}

function declaresText({ entry, output }: PreparedTool, text: string): boolean {
  if (output === undefined) return false
  if (!('~standard' in output)) return output.check(text)
  const { outputSchema } = entry.tool
  return typeof outputSchema === 'object' && outputSchema.type === 'string'
}

function warnOfDropped(run: Run, count: number): void {
  run.warn({ code: 'OUTPUT_INVALID', message: `${count} __proto__ keys were left out of the output.` })
}

const nothing: Measured = Object.freeze({})

function plainOutput(run: Run, tool: PreparedTool, raw: unknown): Json {
  if (raw === undefined) return null
  const { dropped } = tool.resultCopy
  dropped.count = 0
  try {
    const copied = copyJson(raw, tool.resultCopy)
    if (dropped.count > 0) warnOfDropped(run, dropped.count)
    return run.redactor?.value(copied) ?? copied
  } catch (error) {
    if (!(error instanceof JsonError)) throw error
    const code = error.fault === 'too-large' || error.fault === 'too-deep' ? 'RESULT_TOO_LARGE' : 'OUTPUT_INVALID'
    const issue = { path: error.path, message: error.message }
    throw new ToolError(code, `The output ${error.path === '' ? '' : `at ${error.path} `}${error.message}.`, {
      cause: error.cause,
      details: { issues: [issue] },
    })
  }
}

type McpResult = JsonObject & { readonly content: Content[] }

/** An MCP call result: a list of typed content blocks, optionally with structured content. */
function isMcpResult(value: JsonObject): value is McpResult {
  const { content } = value
  if (!Array.isArray(content)) return false
  if (!('isError' in value) && !('structuredContent' in value) && content.length === 0) return false
  return content.every((block) => isObject(block) && hasContentType(block))
}

const contentTypes: readonly unknown[] = ['text', 'image', 'audio', 'resource', 'resource_link']

function hasContentType(block: JsonObject): boolean {
  return contentTypes.includes(block.type)
}

function readMcpResult(run: Run, tool: PreparedTool, { content, structuredContent, isError }: McpResult): void {
  run.content = content
  const texts = run.content.flatMap((block) => (block.type === 'text' ? [block.text] : []))
  const text = texts.length === 0 ? null : texts.join('\n')
  run.output = structuredContent ?? text
  if (isError === true) throw new ToolError('BACKEND_FAILED', text ?? 'The tool reported an error.')
  const [only] = texts
  if (structuredContent === undefined && only !== undefined && texts.length === 1) readJsonText(run, tool, only)
}

function structuralFailure(value: JsonObject): ToolError | undefined {
  if (value.success === false) {
    const error = value.error ?? value.message
    const message = messageOf(error) ?? 'The tool reported that it did not succeed.'
    return new ToolError(isDenial(value, error) ? 'DENIED' : 'BACKEND_FAILED', message, { stage: 'execute' })
  }
  const { exitCode } = value
  if (typeof exitCode === 'number' && exitCode !== 0) {
    return new ToolError('BACKEND_FAILED', `The program ended with exit code ${exitCode}.`)
  }
  return undefined
}

function messageOf(error: Json | undefined): string | undefined {
  if (typeof error === 'string') return error
  if (!isObject(error)) return undefined
  return typeof error.message === 'string' ? error.message : undefined
}

/** A denial is a field, not a phrase: `denied: true`, or the code DENIED. */
function isDenial(value: JsonObject, error: Json | undefined): boolean {
  if (value.denied === true || value.code === 'DENIED') return true
  return isObject(error) && error.code === 'DENIED'
}
