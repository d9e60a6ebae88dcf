import { type ChainResult, type ChainStep, type Identity, type Result, ToolError, type Warning } from '@gantry/contract'
import type { FoundTool, InnerCalls } from './backends/inner-calls.ts'
import type { Catalog, CatalogEntry } from './catalogs/catalog.ts'
import { describeTool, toolDeclarations } from './catalogs/describe.ts'
import type { ChainOptions } from './chain/chain.ts'
import type { RunStep } from './chain/context.ts'
import type { ChainLimits } from './chain/limits.ts'
import { programTool } from './code/program-tool.ts'
import type { Executor, ListTools } from './executor-interface.ts'
import { ownIdentity } from './executor-options.ts'
import { createInnerCalls } from './inner-calls.ts'
import { checkCall, explainCall } from './pipeline/check.ts'
import { findFor, findShown, missingTool, namedBy } from './pipeline/lookup.ts'
import { refuseCall, runCall } from './pipeline/pipeline.ts'
import type { CallRequest, Ports } from './pipeline/ports.ts'
import { reconcileCall } from './pipeline/reconcile.ts'
import { streamCall } from './pipeline/stream.ts'
import { type CallObserver, checkRunOptions, closed, noOptions, type RunOptions, requestOf } from './run-options.ts'
import type { SourceFault } from './tool-discovery.ts'
import { anyExists, createHashes, createScopedSearch, visibilityOf } from './tool-visibility.ts'
import { readTraceparent } from './tracing/tracer.ts'

/** What the doors of an executor share, whichever policy stands behind them. */
export interface SharedParts {
  readonly owner: Identity
  readonly nextId: () => string
  readonly isClosed: () => boolean
  readonly chainLimits: Partial<ChainLimits> | undefined
  /** Milliseconds since 1970, for chains; the clock of this machine when absent. */
  readonly now: (() => number) | undefined
  /** An empty catalog that searches like the executor's own. */
  readonly createCatalog: () => Catalog
  /** Asks every backend for its tools; gives those that could not be asked. */
  readonly ready: (signal: AbortSignal | undefined) => Promise<readonly SourceFault[]>
}

/** All ways to make a call or to find a tool: what of an executor depends on its policy. */
export type ExecutorMethods = Pick<
  Executor,
  | 'run'
  | 'runOrThrow'
  | 'stream'
  | 'check'
  | 'explain'
  | 'reconcile'
  | 'chain'
  | 'code'
  | 'checkChain'
  | 'search'
  | 'describe'
  | 'declarations'
  | 'find'
  | 'missing'
  | 'visibility'
  | 'hashFor'
> & { readonly tools: ListTools }

/** Of an executor under one policy, for its callers and for the programs that it runs. */
export function createMethods(
  { owner, nextId, isClosed, chainLimits, now, ready, createCatalog }: SharedParts,
  ports: Ports,
): { readonly doors: ExecutorMethods; readonly inner: InnerCalls } {
  const { catalog, sources } = ports
  const hashes = createHashes(ports)
  const searched = createScopedSearch(ports, createCatalog)
  const asRequest = (
    tool: string,
    args: unknown,
    given: RunOptions,
    fault?: ToolError,
    hear?: CallObserver,
  ): CallRequest => {
    const identity = given.identity === undefined || fault !== undefined ? owner : ownIdentity(given.identity)
    return requestOf(tool, args, given, given.callId ?? nextId(), identity, hear)
  }
  const refusalOf = (given: RunOptions): ToolError | undefined => (isClosed() ? closed() : checkRunOptions(given))
  const call = (tool: string, args: unknown, asked?: RunOptions, hear?: CallObserver): Promise<Result> => {
    const given = asked ?? noOptions
    const fault = checkRunOptions(given)
    const request = asRequest(tool, args, given, fault, hear)
    const refusal = isClosed() ? closed() : fault
    return refusal === undefined ? runCall(request, ports) : refuseCall(request, ports, refusal)
  }
  const visible = (identity: Identity, also?: (entry: CatalogEntry) => boolean) => (entry: CatalogEntry) =>
    ports.visible(identity, entry) && (also?.(entry) ?? true)

  const chainWith = async (steps: readonly ChainStep[], run: RunStep, given: ChainOptions): Promise<ChainResult> => {
    // Loaded with the first chain, so that a plain call starts faster.
    const { runChain } = await import('./chain/chain.ts')
    const span = ports.tracer?.start('gantry.chain', readTraceparent(given.traceparent))
    const traceparent = span?.traceparent ?? given.traceparent
    const { onCircuitOpen } = given
    const place = {
      ...(traceparent === undefined ? {} : { traceparent }),
      ...(onCircuitOpen === undefined ? {} : { onCircuitOpen }),
    }
    const result = await runChain(steps, (tool, args, step) => run(tool, args, { ...step, ...place }), {
      now,
      ...given,
      limits: { ...chainLimits, ...given.limits },
    })
    span?.note({
      'gantry.call_id': result.chainId,
      'gantry.status': result.status,
      'gantry.steps': result.steps.length,
    })
    span?.end(result.error?.code)
    return result
  }
  const doors: ExecutorMethods = {
    run: (tool, args, given) => call(tool, args, given),
    code: (code, { language, limits, check, ...given } = {}) => {
      const asked = { language, limits, check }
      const args = Object.fromEntries(Object.entries(asked).filter(([, value]) => value !== undefined))
      return call(programTool, { code, ...args }, given)
    },
    runOrThrow: async (tool, args, given) => {
      let failure: ToolError | undefined
      const result = await call(tool, args, given, {
        failed(error) {
          failure = error
        },
      })
      if (failure === undefined) return result
      const { code, message, details, effect, retryable, stage } = failure
      const facts = details === undefined ? {} : { details }
      throw new ToolError(code, message, { cause: failure.cause, effect, retryable, stage, result, ...facts })
    },
    stream: (tool, args, given) => {
      const callId = given?.callId ?? nextId()
      const start = async (report: NonNullable<CallRequest['report']>, signal: AbortSignal): Promise<Result> =>
        call(tool, args, { ...given, callId, signal }, { report })
      return streamCall(callId, start, given?.signal)
    },
    check: async (tool, args, given = noOptions) => {
      const refusal = refusalOf(given)
      if (refusal !== undefined) throw refusal
      return checkCall(asRequest(tool, args, given), ports)
    },
    explain: async (tool, args, { identity = owner, asker = identity, signal } = {}) => {
      const given = { identity, signal }
      const refusal = refusalOf(given)
      if (refusal !== undefined) throw refusal
      return explainCall(asRequest(tool, args, given), asker, ports)
    },
    reconcile: async (tool, key, asked) => {
      const given = { ...asked, idempotencyKey: key }
      const refusal = refusalOf(given)
      if (refusal !== undefined) return { state: 'unknown', reason: refusal.message }
      return reconcileCall(key, asRequest(tool, undefined, given), ports)
    },
    chain: async (steps, asked) => {
      const given = asked ?? {}
      const identity = given.identity === undefined ? {} : { identity: given.identity }
      return chainWith(
        steps,
        async (tool, args, { stepId: _step, index: _index, decisive: _decisive, ...step }) =>
          call(tool, args, { ...step, ...identity }),
        given,
      )
    },
    checkChain: async (steps, given = {}) => {
      const { refuseInvalid } = await import('./chain/chain.ts')
      refuseInvalid(steps, { ...given, limits: { ...chainLimits, ...given.limits } })
    },
    search: async (query, { identity = owner, allow, ...rest } = {}) => {
      const faults = await ready(rest.signal)
      const page = await searched(identity).search(query, { ...rest, allow: visible(identity, allow) })
      const items = page.items.map(({ entry, score }) => foundTool(entry, score))
      const fault = faults.find(({ backend }) => anyExists(ports, identity, backend))
      return { ...page, items, ...(fault === undefined ? {} : { warning: missing(fault) }) }
    },
    describe: async (tool, { identity = owner, ...how } = {}) => {
      const mayKnow = ports.exists(identity, namedBy(tool))
      if (mayKnow) await sources.pending(tool)
      const isVisible = visible(identity)
      const entry = findShown(catalog, tool, isVisible, sources, mayKnow)
      const versions = catalog
        .versions(entry.key)
        .filter((version) => isVisible(catalog.find(`${entry.key}:${version}`)))
      return describeTool(entry, { ...how, versions })
    },
    declarations: async (query, { identity = owner, allow, ...rest } = {}) => {
      await ready(rest.signal)
      const page = await searched(identity).search(query, { ...rest, allow: visible(identity, allow) })
      return toolDeclarations(page.items.map(({ entry }) => entry.tool))
    },
    tools: ({ identity = owner, allow, ...query } = {}) => catalog.list({ ...query, allow: visible(identity, allow) }),
    find: (tool, { identity = owner } = {}) =>
      findFor(catalog, tool, {
        finds: (entry) => ports.exists(identity, entry.tool),
        sees: (entry) => ports.visible(identity, entry),
      }),
    missing: (tool, schemaDigest) => missingTool(ports, tool, schemaDigest),
    visibility: (tool, { identity = owner } = {}) => visibilityOf(ports, tool, identity),
    hashFor: (identity = owner) => hashes.of(identity),
  }
  const { search, describe, tools, find } = doors
  return { doors, inner: createInnerCalls(ports, { search, describe, tools, find, isClosed, runChain: chainWith }) }
}

export function foundTool({ key, tool }: CatalogEntry, score: number): FoundTool {
  const title = tool.title === undefined ? {} : { title: tool.title }
  const { version, description, tags = [] } = tool
  return { id: key, version, ...title, description, tags, score }
}

/** Tools that could not be found out are missing from a search, which its reader should know. */
export function missing({ error }: SourceFault): Warning {
  return { code: 'BACKEND_UNAVAILABLE', message: error.message }
}
