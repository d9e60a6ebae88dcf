import { text } from 'node:stream/consumers'
import { mcp } from '@gantry/adapters'
import {
  type ArtifactRef,
  type Content,
  type ErrorInfo,
  type Identity,
  type Json,
  type JsonSchema,
  type Result,
  ToolError,
} from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { compileSchema, type Validator } from '@gantry/json-schema'
import type { McpHost, Outcome } from './host.ts'
import { artifactUri } from './resources.ts'
import type { Surface } from './surface.ts'
import type { Revision } from './tool-list.ts'

/** The result of `tools/call`. */
export interface CalledTool {
  readonly content: Content[]
  readonly structuredContent?: unknown
  readonly isError?: true
  readonly _meta?: { readonly [name: string]: unknown }
  readonly [member: string]: unknown
}

/** The `_meta` keys for fields of a Result that MCP does not define. */
export const callIdMeta = 'gantry/callId'
export const errorMeta = 'gantry/error'

/**
 * Larger offloaded outputs are not read back, because they are parsed and checked in the thread that serves everyone.
 */
const mostReadBack = 32 * 1_048_576

const noCall = { ok: true, name: '', tool: '', args: {}, schemaDigest: '' } as const
/** Results are already within their limits; nothing is truncated here. */
const whole = 2 ** 31

/** The reader of a result, and the revision. */
export interface ResultReader {
  readonly revision: Revision
  readonly identity: Identity
  readonly signal: AbortSignal
}

export type ResultWriter = (outcome: Outcome | ToolError, reader: ResultReader) => Promise<CalledTool>

/**
 * Translates outcomes to MCP: text and structured output, artifacts as links, errors with their code.
 * Structured content matches the listed output schema or is omitted, because clients raise an error on a mismatch. An
 * offloaded output is read back for a tool that declares a schema; the content has its preview and a link. An output
 * that does not match or is too large to be read back is an error of the tool: clients accept a result without structured content from such a tool only
 * as an error.
 */
export function createResultWriter(host: McpHost, surface: Pick<Surface, 'outputSchema'>): ResultWriter {
  const adapters = {
    '2025-11-25': mcp({ revision: '2025-11-25', maxChars: whole }),
    '2026-07-28': mcp({ revision: '2026-07-28', maxChars: whole }),
  }
  const fits = createFitCheck()
  return async (outcome, reader) => {
    const { revision, identity } = reader
    if (ToolError.is(outcome)) {
      const { code, message, stage, retryable, effect } = outcome
      const info: ErrorInfo = { code, message, stage, retryable, effect }
      return { ...adapters[revision].result(noCall, outcome), _meta: { [errorMeta]: info } }
    }
    const result: Result = 'steps' in outcome ? asResult(outcome) : outcome
    const offloaded = offloadedOutput(result)
    const shown = offloaded === undefined ? result : { ...result, output: previewText(offloaded) }
    const { content, structuredContent, isError } = adapters[revision].result(noCall, { ...shown, artifacts: [] })
    const links = linksTo(result.artifacts)
    const own = content.filter((block) => !isLinkTo(block, result.artifacts))
    const schema = isError === true ? undefined : surface.outputSchema(result.tool, identity, revision)
    const error = result.error === undefined ? {} : { [errorMeta]: withoutCause(result.error) }
    const called: CalledTool = {
      content: links.length === 0 ? own : [...own, ...links],
      ...(schema !== undefined || structuredContent === undefined ? {} : { structuredContent }),
      ...(isError === true ? { isError } : {}),
      _meta: { [callIdMeta]: result.callId, ...error },
    }
    if (schema === undefined) return called
    const structured = offloaded === undefined ? result.output : await readBack(host, result, offloaded, reader)
    if (!ToolError.is(structured) && fits(schema, structured)) return { ...called, structuredContent: structured }
    return unfit(called, ToolError.is(structured) ? structured : misfit(result))
  }
}

/** One link to each file; the same file may be the output and a part of the content. */
function linksTo(artifacts: readonly ArtifactRef[]): readonly Content[] {
  const files = new Map(artifacts.map((file) => [file.id, file]))
  return [...files.values()].map(({ id, name, mimeType, bytes }) => ({
    type: 'resource_link',
    uri: artifactUri(id),
    name,
    mimeType,
    size: bytes,
  }))
}

/** Whether a block links to an artifact by its HTTP URL, which is not a resource of this server. */
function isLinkTo(block: Content, artifacts: readonly ArtifactRef[]): boolean {
  return block.type === 'resource_link' && artifacts.some(({ id }) => block.uri === `/v1/artifacts/${id}`)
}

/** Compiles each schema once, cached as long as its listed tool. */
function createFitCheck(): (schema: JsonSchema & object, value: Json) => boolean {
  const validators = new WeakMap<object, Validator>()
  return (schema, value) => {
    const known = validators.get(schema) ?? compileSchema(schema)
    validators.set(schema, known)
    return known.check(value)
  }
}

interface OffloadedOutput {
  readonly file: ArtifactRef
  readonly mimeType: unknown
  readonly preview: { readonly head: string; readonly tail: string }
}

/** The marker of an offloaded output. A tool can forge the marker, but not an artifact of its own result. */
function offloadedOutput({ output, artifacts }: Result): OffloadedOutput | undefined {
  const spilled = isObject(output) ? output.spilled : undefined
  if (!isObject(spilled)) return undefined
  const file = artifacts.find(({ id, digest }) => id === spilled.artifact && digest === spilled.digest)
  if (file === undefined) return undefined
  const { mimeType, preview } = spilled
  const { head = '', tail = '' } = isObject(preview) ? preview : {}
  return { file, mimeType, preview: { head: String(head), tail: String(tail) } }
}

function previewText({ file, preview: { head, tail } }: OffloadedOutput): string {
  return `${head}\n[… ${file.bytes} bytes in all; the whole output is the resource ${artifactUri(file.id)} …]\n${tail}`
}

/** The output of the tool, or the error of reading it back. */
async function readBack(
  host: McpHost,
  { output }: Result,
  { file, mimeType }: OffloadedOutput,
  { identity, signal }: ResultReader,
): Promise<Json | ToolError> {
  // The marker of an offloaded output has no other members; an object with more was written by the tool.
  if (!isObject(output) || Object.keys(output).length !== 1) return output
  if (file.bytes > mostReadBack) {
    const message = `The output has ${file.bytes} bytes, too many for structured content; read the linked resource.`
    return new ToolError('RESULT_TOO_LARGE', message)
  }
  try {
    if (host.artifact === undefined) {
      throw new ToolError('STORE_UNAVAILABLE', 'The artifact with the offloaded output cannot be read by this host.')
    }
    const whole = await text((await host.artifact(file.id, undefined, identity, signal)).content)
    return mimeType === 'text/plain' ? whole : JSON.parse(whole)
  } catch (error) {
    return ToolError.is(error)
      ? error
      : new ToolError('STORE_UNAVAILABLE', 'The offloaded output cannot be read.', { cause: error })
  }
}

function misfit({ tool }: Result): ToolError {
  const message = `The output of ${tool?.id ?? 'the tool'} does not fit the schema it declares; the content shows it.`
  return new ToolError('OUTPUT_INVALID', message)
}

/** The call succeeded, but its output does not match the declared schema. */
function unfit({ content, _meta }: CalledTool, { code, message, stage, retryable, effect }: ToolError): CalledTool {
  const info: ErrorInfo = { code, message, stage, retryable, effect }
  const text = `Error ${code}: ${message} The tool has run; do not call it again for this.`
  return { content: [{ type: 'text', text }, ...content], isError: true, _meta: { ..._meta, [errorMeta]: info } }
}

function asResult(chain: Extract<Outcome, { readonly steps: unknown }>): Result {
  const { chainId, steps, status, output, startedAt, durationMs, error } = chain
  const summary: Json = { output: output ?? null, steps: steps.map(({ id, state }) => ({ id, state })) }
  return {
    callId: chainId,
    status,
    output: summary,
    content: [],
    warnings: [],
    artifacts: [],
    effects: [],
    usage: { wallMs: durationMs, enforced: {} },
    attempts: 1,
    startedAt,
    durationMs,
    ...(error === undefined ? {} : { error }),
  }
}

/** Causes are logged for the operator and not sent. */
function withoutCause({ cause: _cause, ...info }: ErrorInfo): ErrorInfo {
  return info
}
