import { text } from 'node:stream/consumers'
import { mcp } from '@gantry/adapters'
import {
  type ArtifactRef,
  type Content,
  type ErrorInfo,
  type Identity,
  type Json,
  type JsonObject,
  type JsonSchema,
  type Result,
  ToolError,
} from '@gantry/contract'
import { compileSchema, type Validator } from '@gantry/json-schema'
import type { McpHost, Outcome } from './host.ts'
import { artifactUri } from './resources.ts'
import type { Surface } from './surface.ts'
import type { Revision } from './tool-list.ts'

/** The result of `tools/call`. */
export interface CalledTool {
  readonly content: Content[]
  readonly structuredContent?: Json
  readonly isError?: true
  readonly _meta?: { readonly [name: string]: unknown }
  readonly [member: string]: unknown
}

/** Under which names of ours the result of a call says more than MCP has a place for. */
export const callIdMeta = 'gantry/callId'
export const errorMeta = 'gantry/error'

const noCall = { ok: true, name: '', tool: '', args: {}, schemaDigest: '' } as const
/** The limits of results were held before; nothing is cut on the way out. */
const whole = 2 ** 31

/** Who reads a result, and in which revision. */
export interface ResultReader {
  readonly revision: Revision
  readonly identity: Identity
  readonly signal: AbortSignal
}

export type ResultWriter = (outcome: Outcome | ToolError, reader: ResultReader) => Promise<CalledTool>

/**
 * Writes outcomes as MCP has them: text beside structured output, kept files as links, errors with their code.
 * Structured content fits the output schema under which the tool is listed, or is absent, because clients raise when it
 * does not fit. An output that was offloaded is read back for a tool that declares a schema, and its preview stands in
 * the content with a link to the whole. An output that does not fit is an error of the tool: clients take an absent
 * structured content of such a tool only beside an error.
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
    ...{ type: 'resource_link', uri: artifactUri(id), name, mimeType, size: bytes },
  }))
}

/** Whether a block links to a file by its address over HTTP, which is no resource of this server. */
function isLinkTo(block: Content, artifacts: readonly ArtifactRef[]): boolean {
  return block.type === 'resource_link' && artifacts.some(({ id }) => block.uri === `/v1/artifacts/${id}`)
}

/** Compiles each schema once, for as long as the listed tool that it belongs to is kept. */
function createFitCheck(): (schema: JsonObject, value: Json) => boolean {
  const validators = new WeakMap<JsonObject, Validator>()
  return (schema, value) => {
    const known = validators.get(schema) ?? compileSchema(schema as JsonSchema)
    validators.set(schema, known)
    return known.check(value)
  }
}

interface OffloadedOutput {
  readonly file: ArtifactRef
  readonly mimeType: unknown
  readonly preview: { readonly head?: string; readonly tail?: string }
}

/** What stands in place of an output that was offloaded; a tool can write the same, but names no file of its result. */
function offloadedOutput({ output, artifacts }: Result): OffloadedOutput | undefined {
  const { spilled } = (output ?? {}) as { readonly spilled?: { readonly [member: string]: unknown } }
  if (typeof spilled !== 'object' || spilled === null) return undefined
  const file = artifacts.find(({ id, digest }) => id === spilled.artifact && digest === spilled.digest)
  if (file === undefined) return undefined
  return { file, mimeType: spilled.mimeType, preview: (spilled.preview ?? {}) as OffloadedOutput['preview'] }
}

function previewText({ file, preview: { head = '', tail = '' } }: OffloadedOutput): string {
  return `${head}\n[… ${file.bytes} bytes in all; the whole output is the resource ${artifactUri(file.id)} …]\n${tail}`
}

/** The output as the tool gave it, or why it cannot be read. */
async function readBack(
  host: McpHost,
  { output }: Result,
  { file, mimeType }: OffloadedOutput,
  { identity, signal }: ResultReader,
): Promise<Json | ToolError> {
  // The marker of an offloaded output stands alone; an object with more members was written by the tool.
  if (Object.keys(output as JsonObject).length !== 1) return output
  try {
    if (host.artifact === undefined) {
      throw new ToolError('STORE_UNAVAILABLE', 'The artifact that holds the output cannot be read here.')
    }
    const whole = await text((await host.artifact(file.id, undefined, identity, signal)).content)
    return mimeType === 'text/plain' ? whole : (JSON.parse(whole) as Json)
  } catch (error) {
    return ToolError.is(error)
      ? error
      : new ToolError('STORE_UNAVAILABLE', 'The output cannot be read.', { cause: error })
  }
}

function misfit({ tool }: Result): ToolError {
  const message = `The output of ${tool?.id ?? 'the tool'} does not fit the schema it declares; the content shows it.`
  return new ToolError('OUTPUT_INVALID', message)
}

/** The call ended well, but what it gave cannot be sent as declared. */
function unfit({ content, _meta }: CalledTool, { code, message, stage, retryable, effect }: ToolError): CalledTool {
  const info: ErrorInfo = { code, message, stage, retryable, effect }
  const text = `Error ${code}: ${message} The tool has run; do not call it again for this.`
  return { content: [{ type: 'text', text }, ...content], isError: true, _meta: { ..._meta, [errorMeta]: info } }
}

function asResult(chain: Extract<Outcome, { readonly steps: unknown }>): Result {
  const { chainId, steps, status, output, startedAt, durationMs, error } = chain
  const summary = { output, steps: steps.map(({ id, state }) => ({ id, state })) }
  return {
    ...{ callId: chainId, status, output: summary as unknown as Json, content: [], warnings: [], artifacts: [] },
    ...{ effects: [], usage: { wallMs: durationMs, enforced: {} }, attempts: 1, startedAt, durationMs },
    ...(error === undefined ? {} : { error }),
  }
}

/** Causes are for the operator's log. */
function withoutCause({ cause: _cause, ...info }: ErrorInfo): ErrorInfo {
  return info
}
