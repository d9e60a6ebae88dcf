import {
  type ChainResult,
  type ChainStep,
  type Identity,
  type Result,
  type StreamEvent,
  ToolError,
  type Warning,
} from '@gantry/contract'
import { memoryAudit } from './audits/memory.ts'
import type { Backend } from './backends/backend.ts'
import { localBackend } from './backends/local.ts'
import { createCallIds } from './call-ids.ts'
import type { Catalog, CatalogEntry, EntryFilter, ListQuery, Page } from './catalogs/catalog.ts'
import { type DescribeOptions, describeTool, type ToolDoc } from './catalogs/describe.ts'
import { memoryCatalog } from './catalogs/memory.ts'
import type { ChainOptions } from './chain/chain.ts'
import {
  checkOptions,
  defaultLimits,
  type ExecutorOptions,
  isPositive,
  localOwner,
  ownIdentity,
} from './executor-options.ts'
import { holds } from './pipeline/authorize.ts'
import { systemClock } from './pipeline/clock.ts'
import { createEvents, type Events } from './pipeline/events.ts'
import { createHeldSecrets } from './pipeline/held-secrets.ts'
import { findShown } from './pipeline/lookup.ts'
import { refuseCall, runCall } from './pipeline/pipeline.ts'
import type { CallRequest, PipelineLimits, Ports } from './pipeline/ports.ts'
import { createPreparedTools } from './pipeline/prepare.ts'
import { backendKey } from './pipeline/resolve.ts'
import { streamCall } from './pipeline/stream.ts'
import type { Policy } from './policies/policy.ts'
import { rules } from './policies/rules.ts'
import { createDeadlines } from './resilience/deadlines.ts'
import { createSlots } from './resilience/slots.ts'
import { checkRunOptions, noOptions, type RunOptions } from './run-options.ts'
import { memorySecrets } from './secrets/memory.ts'
import type { SecretSource } from './secrets/secret.ts'
import { shutDown } from './shut-down.ts'
import type { DefinedTool } from './tools/tool.ts'

/** A tool as search shows it. */
export interface FoundTool {
  readonly id: string
  readonly version: string
  readonly title?: string
  readonly description: string
  readonly tags: readonly string[]
  readonly score: number
}

export interface FindOptions extends EntryFilter {
  readonly limit?: number | undefined
  readonly cursor?: string | undefined
  readonly identity?: Identity | undefined
  readonly signal?: AbortSignal | undefined
}

/**
 * Runs tools. Every call, from whichever door, passes the same pipeline.
 * - Concurrency: any number of calls at once.
 * - Errors: `run`, `stream` and `chain` never throw for what a call does; they answer with a Result. Discovery and
 *   registration throw ToolError.
 * - Ownership: `close` ends what runs and closes the backends; after it every call is refused.
 */
export interface Executor {
  /** Always a Result, whatever the outcome. */
  run(tool: string, args?: unknown, options?: RunOptions): Promise<Result>
  /** The same, for those who prefer exceptions: throws ToolError with the Result on it unless the status is ok. */
  runOrThrow(tool: string, args?: unknown, options?: RunOptions): Promise<Result>
  /** Events of one call as they happen; stopping the loop cancels the call. */
  stream(tool: string, args?: unknown, options?: RunOptions): AsyncGenerator<StreamEvent, void>
  chain(
    steps: readonly ChainStep[],
    options?: ChainOptions & { readonly identity?: Identity | undefined },
  ): Promise<ChainResult>
  /** Tools that fit the words, best first, of those the caller may use. */
  search(query: string, options?: FindOptions): Promise<Page<FoundTool> & { readonly warning?: Warning }>
  /** What there is to know of one tool, at one of three levels. */
  describe(tool: string, options?: DescribeOptions & { readonly identity?: Identity | undefined }): Promise<ToolDoc>
  /** Tools by id, of those the caller may use. */
  tools(query?: ListQuery & { readonly identity?: Identity | undefined }): Page<CatalogEntry>
  register(tool: DefinedTool): CatalogEntry
  /** Replaces a version, or adds it. Calls that already run are not touched. */
  update(tool: DefinedTool): CatalogEntry
  unregister(id: string): boolean
  readonly catalog: Catalog
  readonly on: Events['on']
  /** Takes no more calls, lets running ones end for `graceMs` (5 s), then cancels them and closes the backends. */
  close(options?: { readonly graceMs?: number }): Promise<void>
}

/** Composes an executor; the only place where the parts meet. */
export function createExecutor(options: ExecutorOptions = {}): Executor {
  checkOptions(options)
  const local = localBackend()
  const backends = backendMap([local, ...(options.backends ?? [])])
  const catalog = options.catalog ?? memoryCatalog(options.embedder === undefined ? {} : { embedder: options.embedder })
  const limits: PipelineLimits = { ...defaultLimits, ...options.limits }
  const policy = asPolicy(options.policy)
  const ports: Ports = {
    catalog,
    prepared: createPreparedTools(limits, options.format === undefined ? {} : { format: options.format }),
    backends,
    policy,
    visible: (identity, entry) => isVisible(policy, identity, entry),
    approver: options.approver,
    audit: options.audit ?? memoryAudit(),
    secrets: asSecrets(options.secrets),
    held: createHeldSecrets(),
    slots: createSlots(),
    events: createEvents(),
    clock: systemClock(),
    random: options.random ?? Math.random,
    limits,
    deadlines: createDeadlines(),
  }
  const nextId = createCallIds()
  const owner = options.identity === undefined ? localOwner : ownIdentity(options.identity)
  const unsubscribe = catalog.subscribe((change) => {
    if (change.kind === 'unregistered') for (const id of change.ids) forget(id)
    ports.events.emit('catalog:changed', change)
  })
  const forget = (id: string): void => {
    local.remove(id)
    ports.prepared.forget(id)
  }
  let closing: Promise<void> | undefined

  const call = (tool: string, args: unknown, asked?: RunOptions, hear?: Hearing): Promise<Result> => {
    const given = asked ?? noOptions
    const fault = checkRunOptions(given)
    const identity = given.identity === undefined || fault !== undefined ? owner : ownIdentity(given.identity)
    const request = requestOf(tool, args, given, given.callId ?? nextId(), identity, hear)
    const refusal = closing === undefined ? fault : closed()
    return refusal === undefined ? runCall(request, ports) : refuseCall(request, ports, refusal)
  }
  const put = (defined: DefinedTool, how: 'register' | 'update'): CatalogEntry => {
    const entry = catalog[how](defined.tool)
    const before = local.get(entry.id)
    if (how === 'register' && before !== undefined && before !== defined.run) throw taken(entry.id)
    forget(entry.id)
    if (defined.run !== undefined) local.add(entry.id, defined.run)
    ports.prepared.define(entry, defined)
    return entry
  }
  const visible = (identity: Identity, also?: (entry: CatalogEntry) => boolean) => (entry: CatalogEntry) =>
    ports.visible(identity, entry) && (also?.(entry) ?? true)

  for (const tool of options.tools ?? []) put(tool, 'register')

  return {
    run: (tool, args, given) => call(tool, args, given),
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
    chain: async (steps, asked) => {
      const given = asked ?? {}
      // Loaded with the first chain, so that a plain call starts faster.
      const { runChain } = await import('./chain/chain.ts')
      const identity = given.identity === undefined ? {} : { identity: given.identity }
      return runChain(
        steps,
        async (tool, args, { stepId: _step, index: _index, ...step }) => call(tool, args, { ...step, ...identity }),
        { ...given, limits: { ...options.limits?.chain, ...given.limits } },
      )
    },
    search: async (query, { identity = owner, allow, ...rest } = {}) => {
      const page = await catalog.search(query, { ...rest, allow: visible(identity, allow) })
      return { ...page, items: page.items.map(({ entry, score }) => foundTool(entry, score)) }
    },
    describe: async (tool, { identity = owner, ...how } = {}) => {
      const entry = findShown(catalog, tool, visible(identity))
      if (!visible(identity)(entry)) {
        throw new ToolError('TOOL_NOT_FOUND', `There is no tool ${tool}.`, { details: { nearest: [] } })
      }
      return describeTool(entry, { ...how, versions: catalog.versions(entry.key) })
    },
    tools: ({ identity = owner, allow, ...query } = {}) => catalog.list({ ...query, allow: visible(identity, allow) }),
    register: (tool) => put(tool, 'register'),
    update: (tool) => put(tool, 'update'),
    unregister: (id) => catalog.unregister(id),
    catalog,
    on: ports.events.on,
    close: (how = {}) => {
      closing ??= shutDown(ports, backends, isPositive(how.graceMs) ? how.graceMs : 5_000).finally(unsubscribe)
      return closing
    },
  }
}

/** What a door wants to hear of a call besides its Result. */
type Hearing = Partial<Pick<CallRequest, 'report' | 'failed'>>

function requestOf(
  tool: string,
  args: unknown,
  given: RunOptions,
  callId: string,
  identity: Identity,
  hear: Hearing | undefined,
): CallRequest {
  return {
    callId,
    tool,
    args,
    identity,
    idempotencyKey: given.idempotencyKey,
    schemaDigest: given.schemaDigest,
    signal: given.signal,
    timeoutMs: given.timeoutMs,
    retry: given.retry,
    report: hear?.report,
    failed: hear?.failed,
  }
}

function taken(id: string): ToolError {
  const message = `${id} is registered with another function; use update, or another version.`
  return new ToolError('TOOL_INVALID', message, {
    details: { issues: [{ path: '/run', message: 'is another function' }] },
  })
}

function closed(): ToolError {
  return new ToolError('BACKEND_UNAVAILABLE', 'The executor is closed.', { retryable: false })
}

/** Discovery shows what the identity may call as far as that is known without arguments. */
function isVisible(policy: Policy | undefined, identity: Identity, { id, tool }: CatalogEntry): boolean {
  const permitted = (tool.permissions ?? []).every((permission) => holds(identity, permission))
  return permitted && (policy?.visible?.({ identity, id, tool }) ?? true)
}

function backendMap(list: readonly Backend[]): ReadonlyMap<string, Backend> {
  const map = new Map<string, Backend>()
  for (const backend of list) {
    const key = backendKey(backend.kind, backend.name)
    if (map.has(key)) throw new ToolError('CONFIG_INVALID', `Two backends are called ${key}.`)
    map.set(key, backend)
  }
  return map
}

function asPolicy(policy: ExecutorOptions['policy']): Policy | undefined {
  if (policy === undefined || 'decide' in policy) return policy
  const { rules: list, ...options } = policy
  return rules(list, options)
}

function asSecrets(secrets: ExecutorOptions['secrets']): SecretSource {
  if (secrets === undefined) return memorySecrets({})
  return typeof secrets.get === 'function'
    ? (secrets as SecretSource)
    : memorySecrets(secrets as { [name: string]: string })
}

function foundTool({ key, tool }: CatalogEntry, score: number): FoundTool {
  const title = tool.title === undefined ? {} : { title: tool.title }
  const { version, description, tags = [] } = tool
  return { id: key, version, ...title, description, tags, score }
}
