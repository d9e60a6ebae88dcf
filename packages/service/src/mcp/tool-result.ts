import { type Content, type ErrorInfo, type Json, type Result, ToolError } from '@gantry/contract'
import { mcp } from '@gantry/core/adapters'
import { artifactUri } from './artifact-uri.ts'
import type { Outcome } from './host.ts'
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

export type ResultWriter = (outcome: Outcome | ToolError, revision: Revision) => CalledTool

/** Writes outcomes as MCP has them: text beside structured output, kept files as links, errors with their code. */
export function createResultWriter(): ResultWriter {
  const adapters = {
    '2025-11-25': mcp({ revision: '2025-11-25', maxChars: whole }),
    '2026-07-28': mcp({ revision: '2026-07-28', maxChars: whole }),
  }
  return (outcome, revision) => {
    if (ToolError.is(outcome)) {
      const { code, message, stage, retryable, effect } = outcome
      const info: ErrorInfo = { code, message, stage, retryable, effect }
      return { ...adapters[revision].result(noCall, outcome), _meta: { [errorMeta]: info } }
    }
    const chained = 'steps' in outcome
    const result: Result = chained ? asResult(outcome) : outcome
    const { artifacts, error } = result
    const { content, ...rest } = adapters[revision].result(noCall, { ...result, artifacts: [] })
    const links = artifacts.map(
      ({ id, name, mimeType, bytes }): Content => ({
        ...{ type: 'resource_link', uri: artifactUri(id), name, mimeType, size: bytes },
      }),
    )
    return {
      ...rest,
      content: links.length === 0 ? content : [...content, ...links],
      _meta: { [callIdMeta]: result.callId, ...(error === undefined ? {} : { [errorMeta]: withoutCause(error) }) },
    }
  }
}

function asResult(chain: Extract<Outcome, { readonly steps: unknown }>): Result {
  const { chainId, steps, status, output, startedAt, durationMs, error } = chain
  const told = { output, steps: steps.map(({ id, state }) => ({ id, state })) }
  return {
    ...{ callId: chainId, status, output: told as unknown as Json, content: [], warnings: [], artifacts: [] },
    ...{ effects: [], usage: { wallMs: durationMs, enforced: {} }, attempts: 1, startedAt, durationMs },
    ...(error === undefined ? {} : { error }),
  }
}

/** Causes are for the log of whoever runs the tool. */
function withoutCause({ cause: _cause, ...info }: ErrorInfo): ErrorInfo {
  return info
}
