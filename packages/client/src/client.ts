import {
  type ApprovalView,
  type CallState,
  type CallView,
  type ChainResult,
  type ChainStep,
  type DeadLetter,
  type HealthView,
  type Identity,
  type JsonObject,
  type Paged,
  type Replay,
  type Result,
  type StreamEvent,
  ToolError,
  type WorkerView,
} from '@gantry/contract'
import { type AuditReads, auditOf, type Keys, keysOf, type PolicyAccess, policyOf } from './administration.ts'
import { type FollowOptions, follow } from './events.ts'
import { createHttp, type Http, type Request, segment } from './http.ts'
import {
  type CallOptions,
  type ChainOptions,
  type ClientOptions,
  type CodeOptions,
  callBody,
  chainBody,
  codeBody,
  readOptions,
  type SubmitOptions,
  submitHeaders,
  type Waiting,
} from './options.ts'
import type { CatalogPage, CircuitView, FoundPage, ListedTool, RuntimeView, ToolDoc } from './types.ts'
import { awaitSubmission, type Canceller, run, submit } from './wait.ts'

export interface PageOptions extends Waiting {
  readonly limit?: number | undefined
  readonly cursor?: string | undefined
}

export interface FindOptions extends PageOptions {
  readonly namespace?: string | undefined
  readonly tag?: string | undefined
}

export interface DescribeOptions extends Waiting {
  readonly level?: 'summary' | 'types' | 'schema' | 'full' | undefined
  readonly maxTokens?: number | undefined
  readonly examples?: number | undefined
}

/** A call or a chain that is kept; one of a key that was used before may have ended. */
export interface Accepted {
  readonly callId: string
  readonly state: CallState
}

export interface DecideOptions extends Waiting {
  readonly reason?: string | undefined
}

/** Bytes from `start` up to but without `end`. */
export interface ArtifactOptions extends Waiting {
  readonly start?: number | undefined
  readonly end?: number | undefined
}

/**
 * A Gantry service, over HTTP.
 * - Concurrency: any number of calls at once.
 * - Errors: rejects with ToolError, with the code that the service gave. SERVICE_UNAVAILABLE when it cannot be reached
 * after all repeats; a submitted call may then exist nevertheless, and the same key finds it.
 * - Cancellation: `signal` ends the wait with CANCELLED.
 */
export interface Client {
  /** The Result of a call, whatever its status, however long it takes. */
  call(tool: string, args?: JsonObject, options?: CallOptions): Promise<Result>
  /** Submits a call without waiting for its outcome. */
  submit(tool: string, args?: JsonObject, options?: SubmitOptions): Promise<Accepted>
  chain(steps: readonly ChainStep[], options?: ChainOptions): Promise<ChainResult>
  /** Submits a chain without waiting for its outcome. */
  submitChain(steps: readonly ChainStep[], options?: ChainOptions): Promise<Accepted>
  /** Runs a program over tools: `output` is what it returned, `program` what it printed and which calls it made. */
  code(code: string, options?: CodeOptions): Promise<Result>
  /** Submits a program without waiting for its outcome. */
  submitCode(code: string, options?: CodeOptions): Promise<Accepted>
  /** The events of a new call as they happen, over any number of broken connections; leaving the loop cancels the call. */
  stream(tool: string, args?: JsonObject, options?: CallOptions): AsyncGenerator<StreamEvent, void>
  /** The events of a call that was submitted before; leaving the loop leaves the call alone. */
  events(callId: string, options?: FollowOptions): AsyncGenerator<StreamEvent, void>
  /** With `args`, also the arguments without secrets, for the principal of the call and for operators. */
  get(callId: string, options?: Waiting & { readonly args?: boolean | undefined }): Promise<CallView>
  list(
    options?: PageOptions & { readonly state?: CallState | undefined; readonly tool?: string | undefined },
  ): Promise<Paged<CallView>>
  cancel(callId: string, options?: Waiting): Promise<CallView>
  /** Runs a call that has ended again with what is on record in the place of its tools, and says what differs. */
  replay(callId: string, options?: Waiting): Promise<Replay>
  /** Tools by id; `versions` for every version of each. */
  tools(options?: FindOptions & { readonly versions?: 'all' | undefined }): Promise<Paged<ListedTool>>
  /** Tools that fit the words, best first. */
  search(query: string, options?: FindOptions): Promise<FoundPage>
  describe(tool: string, options?: DescribeOptions): Promise<ToolDoc>
  catalog(options?: PageOptions): Promise<CatalogPage>
  readonly approvals: {
    /** Calls that wait for a person; decided ones too with `all`. */
    list(options?: PageOptions & { readonly state?: 'open' | 'all' | undefined }): Promise<Paged<ApprovalView>>
    /** With the arguments; long texts in them are cut unless `full` is set. */
    get(id: string, options?: Waiting & { readonly full?: boolean | undefined }): Promise<ApprovalView>
    /** Approves or rejects another caller's call; `reason` is shown to its caller. */
    approve(id: string, options?: DecideOptions): Promise<ApprovalView>
    deny(id: string, options?: DecideOptions): Promise<ApprovalView>
  }
  readonly deadLetters: {
    list(options?: PageOptions): Promise<Paged<DeadLetter>>
    get(id: string, options?: Waiting): Promise<DeadLetter>
    redrive(id: string, options?: Waiting): Promise<{ readonly callId: string }>
    discard(id: string, options?: Waiting): Promise<void>
  }
  readonly keys: Keys
  /** The identity of the caller, as its key gives it. */
  whoAmI(options?: Waiting): Promise<Identity>
  readonly policy: PolicyAccess
  readonly audit: AuditReads
  workers(options?: Waiting): Promise<readonly WorkerView[]>
  /** What the process that answers knows of its dependencies and of outcomes that it cannot record. */
  health(options?: Waiting): Promise<HealthView>
  runtimes(options?: Waiting): Promise<readonly RuntimeView[]>
  circuits(options?: Waiting): Promise<readonly CircuitView[]>
  /** Closes a circuit, for one tenant or for all that the caller may speak for; whether it was open before. */
  resetCircuit(
    key: string,
    options?: Waiting & { readonly tenant?: string | undefined },
  ): Promise<{ readonly reset: boolean }>
  /** The content of a file that a call left; the caller reads its body, or cancels it. */
  artifact(id: string, options?: ArtifactOptions): Promise<Response>
}

/** Time limit of a cancellation in the background. */
const cancelMs = 5_000

/** A client of the service at a URL. Throws CONFIG_INVALID for wrong options; no request is sent before a method is called. */
export function createClient(options: ClientOptions): Client {
  const http = createHttp(readOptions(options))
  const canceller = ({ cancelOnAbort }: CallOptions): Canceller | undefined => {
    if (cancelOnAbort === false) return undefined
    return (callId) => {
      const path = `/v1/calls/${segment(callId)}/cancel`
      void http.json({ method: 'POST', path, timeoutMs: cancelMs }).catch(() => undefined)
    }
  }
  const accept = async (request: Request, signal?: AbortSignal, cancel?: Canceller): Promise<Accepted> => {
    const submitted = await awaitSubmission(submit(http, { ...request, until: signal }, 0), signal, cancel)
    return { callId: submitted.callId, state: submitted.kind === 'ended' ? submitted.result.status : submitted.state }
  }
  const callRequest = (tool: string, args: JsonObject, how: SubmitOptions): Request => ({
    path: '/v1/calls',
    headers: submitHeaders(how),
    body: callBody(tool, args, how),
  })
  const chainRequest = (steps: readonly ChainStep[], how: ChainOptions): Request => ({
    path: '/v1/chains',
    headers: submitHeaders(how),
    body: chainBody(steps, how),
  })
  const codeRequest = (code: string, how: CodeOptions): Request => ({
    path: '/v1/code',
    headers: submitHeaders(how),
    body: codeBody(code, how),
  })
  return {
    call: (tool, args = {}, how = {}) => run<Result>(http, callRequest(tool, args, how), how.signal, canceller(how)),
    submit: (tool, args = {}, how = {}) => accept(callRequest(tool, args, how), how.signal),
    chain: (steps, how = {}) => run<ChainResult>(http, chainRequest(steps, how), how.signal, canceller(how)),
    submitChain: (steps, how = {}) => accept(chainRequest(steps, how), how.signal),
    code: (code, how = {}) => run<Result>(http, codeRequest(code, how), how.signal, canceller(how)),
    submitCode: (code, how = {}) => accept(codeRequest(code, how), how.signal),
    async *stream(tool, args = {}, how = {}) {
      const cancel = canceller(how)
      const { callId } = await accept(callRequest(tool, args, how), how.signal, cancel)
      let ended = false
      try {
        for await (const event of follow(http, callId, { signal: how.signal })) {
          ended = event.kind === 'done' || event.kind === 'error'
          yield event
        }
      } catch (error) {
        // An unreachable service does not mean that the caller no longer wants the outcome.
        ended = how.signal?.aborted !== true
        throw error
      } finally {
        if (!ended) cancel?.(callId)
      }
    },
    events: (callId, how = {}) => follow(http, callId, how),
    ...reads(http),
  }
}

type Submitting = 'call' | 'submit' | 'chain' | 'submitChain' | 'code' | 'submitCode' | 'stream' | 'events'

/** The methods that are one request and one response. */
function reads(http: Http): Omit<Client, Submitting> {
  type Asking = Waiting & { readonly query?: string }
  const ask = async <T>(method: 'GET' | 'POST', path: string, asking: Asking = {}): Promise<T> => {
    const { signal, ...query } = asking
    return (await http.json<T>({ method, path, query, signal })).body
  }
  const get = <T>(path: string, asking?: Asking): Promise<T> => ask('GET', path, asking)
  const items = async <T>(path: string, asking?: Asking): Promise<readonly T[]> =>
    (await get<Paged<T>>(path, asking)).items
  const decide = async (id: string, decision: string, how: DecideOptions = {}): Promise<ApprovalView> => {
    const { signal, reason } = how
    const body = reason === undefined ? { decision } : { decision, reason }
    const request: Request = { method: 'POST', path: `/v1/approvals/${segment(id)}`, body, signal }
    return (await http.json<ApprovalView>(request)).body
  }
  const deadLetter = (id: string, what = ''): string => `/v1/dead-letters/${segment(id)}${what}`
  return {
    get: async (callId, asking) => get(`/v1/calls/${segment(callId)}`, asking),
    list: (asking) => get('/v1/calls', asking),
    cancel: async (callId, asking) => ask('POST', `/v1/calls/${segment(callId)}/cancel`, asking),
    replay: async (callId, asking) => ask('POST', `/v1/calls/${segment(callId)}/replay`, asking),
    tools: (asking) => get('/v1/tools', asking),
    search: (query, asking) => get('/v1/tools', { ...asking, query }),
    describe: async (tool, asking) => get(`/v1/tools/${segment(tool)}`, asking),
    catalog: (asking) => get('/v1/catalog', asking),
    approvals: {
      list: (asking) => get('/v1/approvals', asking),
      get: async (id, asking) => get(`/v1/approvals/${segment(id)}`, asking),
      approve: (id, how) => decide(id, 'approve', how),
      deny: (id, how) => decide(id, 'deny', how),
    },
    deadLetters: {
      list: (asking) => get('/v1/dead-letters', asking),
      get: async (id, asking) => get(deadLetter(id), asking),
      redrive: async (id, asking) => ask('POST', deadLetter(id, '/redrive'), asking),
      discard: async (id, asking) => ask('POST', deadLetter(id, '/discard'), asking),
    },
    keys: keysOf(http),
    whoAmI: (asking) => get('/v1/identity', asking),
    policy: policyOf(http),
    audit: auditOf(http),
    workers: (asking) => items('/v1/workers', asking),
    health: (asking) => get('/v1/health', asking),
    runtimes: (asking) => items('/v1/runtimes', asking),
    circuits: (asking) => items('/v1/circuits', asking),
    async resetCircuit(key, { signal, tenant } = {}) {
      const body = tenant === undefined ? { key } : { key, tenant }
      const request: Request = { method: 'POST', path: '/v1/circuits/reset', body, signal }
      return (await http.json<{ readonly reset: boolean }>(request)).body
    },
    async artifact(id, { signal, start = 0, end } = {}) {
      if (end !== undefined && end <= start)
        throw new ToolError('INPUT_INVALID', 'The range of an artifact must have an end behind its start.')
      const range: { [name: string]: string } =
        start === 0 && end === undefined ? {} : { range: `bytes=${start}-${end === undefined ? '' : end - 1}` }
      return http.open({ path: `/v1/artifacts/${segment(id)}`, headers: range, signal })
    },
  }
}
