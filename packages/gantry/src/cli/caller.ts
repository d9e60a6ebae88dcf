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
import type { CatalogEntry, DescribeOptions, Executor, FoundTool, Page, RunOptions, ToolDoc } from '@gantry/core'
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
  /** What an earlier run of the chain got to. */
  readonly resume?: { readonly steps: readonly StepResult[] }
  /** Shows what the steps do. */
  readonly progress: Progress
}

export interface Filter {
  readonly namespace?: string
  readonly tag?: string
  readonly limit?: number
  readonly cursor?: string
}

/** A tool as `gantry tools` prints it. */
type ListedTool = { readonly id: string; readonly digest: string; readonly tags: readonly string[] } & Pick<
  CatalogEntry['tool'],
  'version' | 'title' | 'description' | 'effect' | 'deprecated'
>

type FoundPage = Page<FoundTool> & { readonly warning?: Warning }

/**
 * Who does what a command asks for: an executor in this process, or a service. Both answer in the same shapes.
 * - Cancellation: a call whose signal aborts is cancelled, and its events go on to their end.
 * - Errors: calls and chains that are refused end with a result that says so; everything else rejects with ToolError.
 */
export interface Caller {
  stream(tool: string, args: Json, settings: CallSettings): AsyncIterable<StreamEvent>
  chain(steps: readonly ChainStep[], settings: ChainSettings): Promise<ChainResult>
  tools(filter: Filter & { readonly allVersions: boolean }): Promise<Page<ListedTool>>
  search(words: string, filter: Filter, signal: AbortSignal): Promise<FoundPage>
  describe(tool: string, how: Pick<DescribeOptions, 'level' | 'maxTokens'>): Promise<ToolDoc>
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
      const { items, cursor } = gantry.tools(query)
      return { items: items.map(listedTool), ...(cursor === undefined ? {} : { cursor }) }
    },
    search: (words, filter, signal) => gantry.search(words, { ...filter, signal }),
    describe: (tool, how) => gantry.describe(tool, how),
  }
}

/** Waits for the tools of every backend; those that could not be asked are named on stderr. */
export async function warnOfSources(gantry: Executor, io: Io): Promise<void> {
  for (const { error } of await gantry.ready({ signal: io.signal })) io.err(`warning: ${safeLine(error.message)}\n`)
}

/** Shows the calls of all steps while they run; returns the function that ends it. */
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

function listedTool({ key, tool, digest }: CatalogEntry): ListedTool {
  const { version, title, description, tags = [], effect, deprecated } = tool
  return {
    id: key,
    version,
    ...(title === undefined ? {} : { title }),
    description,
    tags,
    effect,
    ...(deprecated === undefined ? {} : { deprecated }),
    digest,
  }
}

/** A service as a caller. A call that a signal ends is cancelled there, and its outcome is waited for. */
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
        if (event.kind === 'done' || event.kind === 'error') return event.result as unknown as ChainResult
        progress.report(event)
      }
      throw new Error('The events ended without a result.')
    },
    tools: ({ allVersions, ...filter }) => client.tools({ ...filter, ...(allVersions ? { versions: 'all' } : {}) }),
    search: (words, filter, signal) => client.search(words, { ...filter, signal }),
    describe: (tool, how) => client.describe(tool, how),
  }
}

/** The events of a call up to its end; a signal does not end them but the call. */
async function* followCall(client: Client, callId: string, signal: AbortSignal): AsyncGenerator<StreamEvent, void> {
  // When the service is unreachable the cancel fails too; the events report it.
  const cancel = (): void => void client.cancel(callId).catch(() => undefined)
  signal.addEventListener('abort', cancel, { once: true })
  if (signal.aborted) cancel()
  try {
    yield* client.events(callId)
  } finally {
    signal.removeEventListener('abort', cancel)
  }
}

/** The id of what was submitted, or why it was refused. */
async function refusable(submission: Promise<{ readonly callId: string }>): Promise<string | ErrorInfo> {
  try {
    return (await submission).callId
  } catch (error) {
    if (!ToolError.is(error)) throw error
    const { details = {}, ...info } = errorInfoOf(error)
    return Object.keys(details).length === 0 ? info : { ...info, details }
  }
}

/** The end of a call that the service did not take, as a refused call ends in this process. */
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
