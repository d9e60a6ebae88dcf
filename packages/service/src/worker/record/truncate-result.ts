import { type ChainResult, type ErrorInfo, type Result, ToolError } from '@gantry/contract'
import { type DraftChain, type DraftResult, type Part, takeOut } from './offload-part.ts'

export interface CutOptions {
  readonly parts: readonly Part[]
  /** Of the whole result. */
  readonly bytes: number
  readonly most: number
  readonly characters: number
  /** Its owner has no room for files. */
  readonly overQuota?: boolean
}

/**
 * Cuts an outcome that nothing can keep as a whole: of its large parts only the beginning and end stay, and it says so.
 * A call that had succeeded fails, because whoever reads it must not take this for what the tool gave; one that had ended
 * otherwise ended so.
 */
export function cutDown(
  draft: DraftResult | DraftChain,
  { parts, bytes, most, characters, overQuota = false }: CutOptions,
): Result | ChainResult {
  for (const part of parts) takeOut(part, undefined, characters)
  const why = overQuota
    ? 'the quota for stored files of its caller or tenant is used up, and without a file'
    : 'the artifact store is unavailable, and without it'
  const message =
    `The result has ${bytes} bytes, ${why} no more than ${most} are kept. ` +
    'The tool has run; of what it gave, the beginning and end are here.'
  if (draft.status === 'ok') {
    draft.status = 'failed'
    draft.error = errorOf(new ToolError('RESULT_TOO_LARGE', message, { stage: 'record' }))
  } else if ('warnings' in draft) draft.warnings.push({ code: 'RESULT_TOO_LARGE', message })
  const cut = draft as Result | ChainResult
  return Buffer.byteLength(JSON.stringify(cut)) <= most ? cut : bare(cut)
}

function errorOf({ code, message, stage, retryable, effect }: ToolError): ErrorInfo {
  return { code, message, stage, retryable, effect }
}

/** How the call ended and nothing else, for an outcome of very many small parts. */
function bare(outcome: Result | ChainResult): Result | ChainResult {
  if (!('chainId' in outcome))
    return { ...outcome, output: null, content: [], effects: [], warnings: [], artifacts: [] }
  const steps = outcome.steps.map(({ id, tool, state, durationMs }) => {
    const step = { id, state, output: null, results: [], durationMs }
    return tool === undefined ? step : { ...step, tool }
  })
  return { ...outcome, output: null, steps }
}
