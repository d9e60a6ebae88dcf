import {
  type ChainResult,
  type ChainStep,
  type Identity,
  type Issue,
  type Result,
  ToolError,
  type Warning,
} from '@gantry/contract'
import { isObject, isText } from '@gantry/contract/internal/json'
import type { FoundTool, InnerCalls } from './backends/backend.ts'
import type { Catalog, CatalogEntry } from './catalogs/catalog.ts'
import { describeTool, toolDeclarations } from './catalogs/describe.ts'
import type { ChainOptions } from './chain/chain.ts'
import type { RunStep } from './chain/context.ts'
import type { ChainLimits } from './chain/limits.ts'
import type { WorkEngine } from './chain/work-engine.ts'
import { programTool } from './code/program-tool.ts'
import type { Executor, ListTools, RunOptions } from './executor-interface.ts'
import { createInnerCalls } from './inner-calls.ts'
import { isFunction } from './json/plain.ts'
import { callback, having, number, oneOf, part, text, whole } from './options/option.ts'
import { optionsCheck, refusal } from './options/options.ts'
import { checkCall, explainCall, explainRuntime } from './pipeline/check.ts'
import { findFor, findShown, missingTool, namedBy } from './pipeline/lookup.ts'
import { refuseCall, runCall } from './pipeline/pipeline.ts'
import type { CallRequest, Ports } from './pipeline/ports.ts'
import { reconcileCall } from './pipeline/reconcile.ts'
import { streamCall } from './pipeline/stream.ts'
import type { SourceFault } from './tool-discovery.ts'
import { anyExists, createHashes, createScopedSearch, visibilityOf } from './tool-visibility.ts'
import { readTraceparent } from './tracing/tracer.ts'
import { createHandover } from './work-handover.ts'

/** State shared by the methods of an executor, whatever its policy. */
export interface SharedParts {
  readonly owner: Identity
  readonly nextId: () => string
  /** `closed` once the executor refuses calls. */
  readonly state: { readonly closed: boolean }
  readonly chainLimits: Partial<ChainLimits> | undefined
  readonly engines: { readonly [name: string]: WorkEngine } | undefined
  /** Makes the ids of chains; random when absent. */
  readonly chainId: (() => string) | undefined
  /** Milliseconds since 1970, for chains; the system clock when absent. */
  readonly now: (() => number) | undefined
  /** An empty catalog that searches like the executor's own. */
  readonly createCatalog: () => Catalog
  /** Discovers the tools of every backend; resolves with the backends that failed. */
  readonly ready: (signal: AbortSignal | undefined) => Promise<readonly SourceFault[]>
}

/** The methods of an executor that depend on its policy: those that make calls or find tools. */
export type ExecutorMethods = Pick<
  Executor,
  | 'run'
  | 'runOrThrow'
  | 'stream'
  | 'check'
  | 'explain'
  | 'explainRuntime'
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

/** The methods of an executor with one policy, for its callers and for the programs that it runs. */
export function createMethods(
  { owner, nextId, chainId, state, chainLimits, engines, now, ready, createCatalog }: SharedParts,
  ports: Ports,
): { readonly methods: ExecutorMethods; readonly inner: InnerCalls } {
  const { catalog, sources } = ports
  const hashes = createHashes(ports)
  const searched = createScopedSearch(ports, createCatalog)
  const asRequest = (
    tool: string,
    args: unknown,
    given: RunOptions,
    fault?: ToolError,
    observer?: CallObserver,
  ): CallRequest => {
    const identity = given.identity === undefined || fault !== undefined ? owner : ownIdentity(given.identity)
    return requestOf(tool, args, given, given.callId ?? nextId(), identity, observer)
  }
  const refusalOf = (given: RunOptions): ToolError | undefined => (state.closed ? closed() : checkRunOptions(given))
  const call = (tool: string, args: unknown, asked?: RunOptions, observer?: CallObserver): Promise<Result> => {
    const given = asked ?? noOptions
    const fault = checkRunOptions(given)
    const request = asRequest(tool, args, given, fault, observer)
    const refusal = state.closed ? closed() : fault
    return refusal === undefined ? runCall(request, ports) : refuseCall(request, ports, refusal)
  }
  const visible = (identity: Identity, also?: (entry: CatalogEntry) => boolean) => (entry: CatalogEntry) =>
    ports.visible(identity, entry) && (also?.(entry) ?? true)

  const chainWith = async (steps: readonly ChainStep[], run: RunStep, given: ChainOptions): Promise<ChainResult> => {
    // Loaded at the first chain, so that a plain call starts faster.
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
      ...(given.chainId === undefined && chainId !== undefined ? { chainId: chainId() } : {}),
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
  const handed = createHandover({ engines, owner, nextId, chainLimits, state, now }, (code, args, given, reason) =>
    refuseCall(asRequest(programTool, { code, ...args }, given, reason), ports, reason),
  )
  const methods: ExecutorMethods = {
    run: (tool, args, given) => call(tool, args, given),
    code: (code, { language, limits, check, engine, ...given } = {}) => {
      const asked = { language, limits, check }
      if (engine !== undefined) return handed.code(engine, code, asked, given)
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
    explainRuntime: async (tool, args, given = noOptions) => {
      const refusal = refusalOf(given)
      if (refusal !== undefined) throw refusal
      return explainRuntime(asRequest(tool, args, given), ports)
    },
    reconcile: async (tool, key, asked) => {
      const given = { ...asked, idempotencyKey: key }
      const refusal = refusalOf(given)
      if (refusal !== undefined) return { state: 'unknown', reason: refusal.message }
      return reconcileCall(key, asRequest(tool, undefined, given), ports)
    },
    chain: async (steps, asked) => {
      const given = asked ?? {}
      if (given.engine !== undefined) return handed.chain(given.engine, steps, given)
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
  const { search, describe, tools, find } = methods
  return { methods, inner: createInnerCalls(ports, { search, describe, tools, find, state, runChain: chainWith }) }
}

export function foundTool({ key, tool }: CatalogEntry, score: number): FoundTool {
  const title = tool.title === undefined ? {} : { title: tool.title }
  const { version, description, tags = [] } = tool
  return { id: key, version, ...title, description, tags, score }
}

/** The warning of a search when the discovery of a backend failed and its tools are missing. */
export function missing({ error }: SourceFault): Warning {
  return { code: 'BACKEND_UNAVAILABLE', message: error.message }
}

export const noOptions: RunOptions = Object.freeze({})

const key = text(1_000)

const check = optionsCheck<RunOptions>({
  members: {
    signal: part((value) => value instanceof AbortSignal, 'an AbortSignal'),
    timeoutMs: { type: 'number', exclusiveMinimum: 0, description: 'a number of milliseconds above 0' },
    idempotencyKey: key,
    fence: { type: 'integer', description: 'a whole number' },
    identity: part(isIdentity, 'an identity with principal, tenant and a list of permissions'),
    schemaDigest: key,
    origin: { type: 'object', description: 'an object' },
    traceparent: { type: 'string', description: 'a string' },
    retry: {
      type: 'object',
      properties: { attempts: whole(1, 100), delayMs: number(0), maxDelayMs: number(0) },
      required: ['attempts'],
      additionalProperties: false,
    },
    onCircuitOpen: oneOf('fail', 'wait'),
    callId: key,
    backend: key,
    report: callback,
    onThrow: callback,
    effectSink: part(isEffectSink, 'an object with the functions send or keep'),
    program: having('settle'),
    recorded: part(isRecorded, 'a result, or null when there is none'),
  },
})

/** The error of a call with invalid options, if there is one. */
export function checkRunOptions(options: RunOptions): ToolError | undefined {
  if (options === noOptions) return undefined
  const lost = 'recorded' in options && options.recorded === undefined
  if (check.fits(options) && !lost) return undefined
  const issues = [...check.issues(options, ''), ...(lost ? [lostRecord] : [])]
  return refusal('options of the call', issues, 'INPUT_INVALID')
}

const lostRecord: Issue = { path: '/recorded', message: 'must be a result, or null when there is none' }

function isEffectSink(value: unknown): boolean {
  if (!isObject(value)) return false
  return [value.send, value.keep].every((hook) => hook === undefined || isFunction(hook))
}

function isRecorded(value: unknown): boolean {
  return value === null || (isObject(value) && 'output' in value && Array.isArray(value.content))
}

/** Observers of a call, in addition to its Result. */
export type CallObserver = Partial<Pick<CallRequest, 'report' | 'failed' | 'place'>>

export function requestOf(
  tool: string,
  args: unknown,
  given: RunOptions,
  callId: string,
  identity: Identity,
  observer: CallObserver | undefined,
): CallRequest {
  return {
    callId,
    tool,
    args,
    identity,
    idempotencyKey: given.idempotencyKey,
    fence: given.fence,
    schemaDigest: given.schemaDigest,
    traceparent: given.traceparent === undefined ? undefined : readTraceparent(given.traceparent),
    origin: given.origin,
    signal: given.signal,
    timeoutMs: given.timeoutMs,
    retry: given.retry,
    onCircuitOpen: given.onCircuitOpen,
    backend: given.backend,
    report: observer?.report ?? given.report,
    effectSink: given.effectSink,
    program: given.program,
    recorded: given.recorded,
    failed: observer?.failed,
    onThrow: given.onThrow,
    place: observer?.place,
  }
}

export function closed(): ToolError {
  return new ToolError('BACKEND_UNAVAILABLE', 'The executor is closed.', { retryable: false })
}

/** Whether a value is an identity. */
export function isIdentity(value: unknown): value is Identity {
  return (
    isObject(value) &&
    isText(value.principal) &&
    isText(value.tenant) &&
    Array.isArray(value.permissions) &&
    value.permissions.every(isText)
  )
}

/** A frozen copy, so that no tool can change the permissions of its identity. */
export function ownIdentity({ principal, tenant, permissions, roles, tools }: Identity): Identity {
  return Object.freeze({
    principal,
    tenant,
    permissions: Object.freeze([...permissions]),
    ...(roles === undefined ? {} : { roles: Object.freeze([...roles]) }),
    ...(tools === undefined ? {} : { tools: Object.freeze([...tools]) }),
  })
}
