import { randomUUID } from 'node:crypto'
import type { Client } from '@gantry/client'
import {
  type ChainResult,
  type ChainStep,
  codes,
  type ErrorInfo,
  type Json,
  type JsonObject,
  type OnCircuitOpen,
  type Result,
  type StepResult,
  type StreamEvent,
  ToolError,
  type Warning,
} from '@gantry/contract'
import type { DescribeOptions, Executor, FoundTool, Page, RunOptions, ToolDoc } from '@gantry/core'
import type { ListedTool } from '@gantry/core/internal/catalogs/describe'
import { onAbort } from '@gantry/core/internal/resilience/abort'
import { errorInfoOf } from './errors.ts'
import type { Io } from './io.ts'
import { type Progress, progressText } from './print.ts'
import { safeLine } from './terminal.ts'

/** How the command line changes a call. */
export type CallSettings = Pick<RunOptions, 'timeoutMs' | 'idempotencyKey' | 'backend' | 'onCircuitOpen'> & {
  readonly signal: AbortSignal
}

interface ChainSettings {
  readonly input: Json
  readonly signal: AbortSignal
  readonly timeoutMs?: number
  readonly onCircuitOpen?: OnCircuitOpen
  /** The result of an earlier run of the chain, to resume. */
  readonly resume?: { readonly steps: readonly StepResult[] }
  /** Displays the progress of the steps. */
  readonly progress: Progress
}

export interface Filter {
  readonly namespace?: string
  readonly tag?: string
  readonly limit?: number
  readonly cursor?: string
}

type FoundPage = Page<FoundTool> & { readonly warning?: Warning }

/**
 * Runs calls: an executor in this process, or a service. Both return the same types.
 * - Cancellation: a call whose signal aborts is cancelled, and its events continue to its end.
 * - Errors: a refused call or chain has a result with the error; everything else rejects with ToolError.
 */
export interface Caller {
  stream(tool: string, args: Json, settings: CallSettings): AsyncIterable<StreamEvent>
  chain(steps: readonly ChainStep[], settings: ChainSettings): Promise<ChainResult>
  tools(filter: Filter & { readonly allVersions: boolean }): Promise<Page<ListedTool>>
  search(words: string, filter: Filter, signal: AbortSignal): Promise<FoundPage>
  describe(tool: string, how: Pick<DescribeOptions, 'level' | 'maxTokens'>): Promise<ToolDoc>
  /** How to find the place where the tool of a call threw; undefined when the command says so by itself. */
  place(callId: string): string | undefined
  /** The content of a file that a result names. */
  artifact(id: string, signal: AbortSignal): AsyncIterable<Uint8Array>
}

/** An executor in this process as a caller. */
export function localCaller(gantry: Executor, io: Io): Caller {
  return {
    stream: (tool, args, settings) => gantry.stream(tool, args, settings),
    async chain(steps, { progress, ...settings }) {
      const stopWatching = watch(gantry, progress)
      try {
        return await gantry.chain(steps, { ...settings, onStep: ({ id, state }) => progress.show(`${id} ${state}`) })
      } finally {
        stopWatching()
      }
    },
    async tools(query) {
      await warnOfSources(gantry, io)
      const { listedTool } = await import('@gantry/core/internal/catalogs/describe')
      const { items, cursor } = gantry.tools(query)
      return { items: items.map(listedTool), ...(cursor === undefined ? {} : { cursor }) }
    },
    search: (words, filter, signal) => gantry.search(words, { ...filter, signal }),
    describe: (tool, how) => gantry.describe(tool, how),
    place: () => undefined,
    // biome-ignore lint/correctness/useYield: an executor of one command stores no files, so results have them inline
    async *artifact(id) {
      throw new ToolError('NOT_FOUND', `There is no artifact ${id} in this process.`)
    },
  }
}

/** Waits for discovery of every backend; backends that could not be reached are named on stderr. */
export async function warnOfSources(gantry: Executor, io: Io): Promise<void> {
  for (const { error } of await gantry.ready({ signal: io.signal })) io.err(`warning: ${safeLine(error.message)}\n`)
}

/** Displays the calls of all steps while they run; returns the function that ends the display. */
function watch(gantry: Executor, progress: Progress): () => void {
  const started = gantry.on('call:started', ({ tool }) => progress.show(`${tool} …`))
  const reported = gantry.on('call:reported', ({ tool, report }) => {
    if (report.kind === 'progress') progress.show(`${tool} ${progressText(report)}`)
    else progress.report(report)
  })
  return () => {
    started()
    reported()
  }
}

/** A service as a caller. An abort cancels the call at the service and waits for its outcome. */
export function remoteCaller(client: Client): Caller {
  return {
    async *stream(tool, args, { signal, timeoutMs, idempotencyKey, onCircuitOpen }) {
      const how = { timeoutMs, idempotencyKey, onCircuitOpen }
      const callId = await refusable(client.submit(tool, args as JsonObject, how))
      if (typeof callId === 'string') yield* followCall(client, callId, signal)
      else yield refusedCall(callId)
    },
    async chain(steps, { input, signal, timeoutMs, onCircuitOpen, progress }) {
      const chainId = await refusable(client.submitChain(steps, { input, timeoutMs, onCircuitOpen }))
      if (typeof chainId !== 'string') return { ...refused(chainId), chainId: randomUUID(), steps: [] }
      for await (const event of followCall(client, chainId, signal)) {
        if (event.kind !== 'done' && event.kind !== 'error') progress.report(event)
        else if (isChainResult(event.result)) return event.result
      }
      throw new Error('The events ended without a result.')
    },
    tools: ({ allVersions, ...filter }) => client.tools({ ...filter, ...(allVersions ? { versions: 'all' } : {}) }),
    search: (words, filter, signal) => client.search(words, { ...filter, signal }),
    describe: (tool, how) => client.describe(tool, how),
    place: (callId) => `gantry call ${callId} shows where.`,
    async *artifact(id, signal) {
      const { body } = await client.artifact(id, { signal })
      if (body !== null) yield* body
    },
  }
}

function isChainResult(result: object): result is ChainResult {
  return 'steps' in result
}

/** The events of a call up to its end; an abort cancels the call and not the events. */
async function* followCall(client: Client, callId: string, signal: AbortSignal): AsyncGenerator<StreamEvent, void> {
  // When the service is unreachable the cancel fails too; the events report it.
  const leave = onAbort(signal, () => void client.cancel(callId).catch(() => undefined))
  try {
    yield* client.events(callId)
  } finally {
    leave()
  }
}

/** The id of the submitted call, or the error of its refusal. */
async function refusable(submission: Promise<{ readonly callId: string }>): Promise<string | ErrorInfo> {
  try {
    return (await submission).callId
  } catch (error) {
    if (!ToolError.is(error)) throw error
    const { details = {}, ...info } = errorInfoOf(error)
    return Object.keys(details).length === 0 ? info : { ...info, details }
  }
}

/** The result of a call that the service refused, as in this process. */
function refusedCall(error: ErrorInfo): StreamEvent {
  const callId = randomUUID()
  const result: Result = {
    ...refused(error),
    callId,
    content: [],
    warnings: [],
    artifacts: [],
    effects: [],
    usage: { wallMs: 0, enforced: {} },
    attempts: 0,
  }
  return { kind: 'error', id: 1, callId, error, result }
}

function refused(error: ErrorInfo) {
  const startedAt = new Date().toISOString()
  return { status: codes[error.code].status, output: null, error, startedAt, durationMs: 0 } as const
}
