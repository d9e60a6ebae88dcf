import type { ChainResult, ChainStep, Json, OnCircuitOpen, StepResult, StreamEvent, Warning } from '@gantry/contract'
import type { CatalogEntry, DescribeOptions, FoundTool, Page, RunOptions, ToolDoc } from '@gantry/core'
import type { Progress } from './progress.ts'

/** How the command line changes a call. */
export type CallSettings = Pick<RunOptions, 'timeoutMs' | 'idempotencyKey' | 'backend' | 'onCircuitOpen'> & {
  readonly signal: AbortSignal
}

export interface ChainSettings {
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
export type ListedTool = { readonly id: string; readonly digest: string; readonly tags: readonly string[] } & Pick<
  CatalogEntry['tool'],
  'version' | 'title' | 'description' | 'effect' | 'deprecated'
>

export type FoundPage = Page<FoundTool> & { readonly warning?: Warning }

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
