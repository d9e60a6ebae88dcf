import type { CallKind, ChainResult, EffectClass, Identity, JsonObject, OnCircuitOpen, Result } from '@gantry/contract'

/** A submitted call; every field is untrusted. */
export interface CallInput {
  readonly kind: 'call' | 'chain'
  /** `namespace:name`, with a version, a range or neither; absent for a chain. */
  readonly tool?: string
  /** The arguments, or `{ steps, input }` of a chain. */
  readonly args: unknown
  readonly idempotencyKey?: string
  readonly schemaDigest?: string
  readonly priority?: number
  readonly timeoutMs?: number
  /** The call is not claimed before this delay. */
  readonly delayMs?: number
  /** ISO time at which the call ends as a timeout unless it has ended before. */
  readonly deadline?: string
  readonly callback?: string
  /** Whether the call fails or waits while its circuit is open; the tool's setting when absent. */
  readonly onCircuitOpen?: OnCircuitOpen
  readonly traceparent?: string
  /** Origin data of a gateway, bounded by its codec; absent for other APIs. */
  readonly origin?: JsonObject
}

/** A call that was admitted and is to be stored. */
export interface AdmittedCall {
  readonly callId: string
  readonly kind: CallKind
  /** As established by the host when the call was submitted. */
  readonly identity: Identity
  /** Idempotency key; the same key of the same principal is the same call. */
  readonly key?: string
  /** Hash of the request; the same key with another fingerprint is a conflict. */
  readonly fingerprint: string
  /** Tool id with exact version; `chain` for a chain. */
  readonly tool: string
  /**
   * Of the definition that was checked: of all of it when the caller pinned it, else of what the call depends on. Of a
   * chain the JSON list of the tools of its steps that were there.
   */
  readonly digest?: string
  readonly effect: EffectClass
  /** JSON text of the arguments or of the chain; absent when it was offloaded. */
  readonly payload?: string
  /** Digest of the offloaded payload. */
  readonly payloadRef?: string
  readonly payloadBytes: number
  readonly timeoutMs?: number
  /** Higher is claimed sooner; 0 when absent. */
  readonly priority?: number
  /** Not before this much time has passed. */
  readonly delayMs?: number
  /** After this much time the call ends as a timeout. */
  readonly deadlineMs?: number
  /** Of calls with the same key, at most `limit` are claimed at a time, in the order in which they came. */
  readonly slot?: { readonly key: string; readonly limit: number }
  /** URL to send the result to. */
  readonly callback?: string
  /** Reply address on the broker that it came from. */
  readonly reply?: ReplyAddress
  /** Only workers with these labels may claim it. */
  readonly placement?: { readonly [label: string]: string }
  readonly trace?: string
  /** The dead letter that this call repeats. */
  readonly redriveOf?: string
  /** Idempotency key for its tools when it differs from the call's own: that of the call it repeats. */
  readonly effectKey?: string
  /** Origin data of the caller's gateway, for the tool: bounded and untrusted, never identity. */
  readonly origin?: JsonObject
  /** Whether it fails or waits while a circuit is open; by default it fails, and calls of a chain follow their tools. */
  readonly onCircuitOpen?: OnCircuitOpen
}

/** Reply address of a message; written and read only by its codec. Plain JSON. */
export interface ReplyAddress {
  readonly codec: string
  /** Which broker: `kafka` or `redis`. */
  readonly transport: string
  /** The topic or the stream; checked before the call was admitted. */
  readonly to: string
  /** The sender's id of the call, and other data of the reply. */
  readonly data: JsonObject
}

/** The result of a submission. */
export type Submitted =
  | { readonly kind: 'new'; readonly callId: string; readonly claim?: Claim }
  /** The same key and fingerprint as this existing call. */
  | { readonly kind: 'duplicate'; readonly callId: string }
  /** The same key, but another fingerprint. */
  | { readonly kind: 'conflict'; readonly callId: string }

/** The result of `submitAhead`. */
export interface Ahead {
  readonly claims: readonly Claim[]
  /** The result of the submission, as of `submit`. */
  readonly submitted: Promise<readonly Submitted[]>
}

/** A lease on a call; only the outcome under the highest fence counts. */
export interface Holder {
  readonly callId: string
  readonly fence: number
}

/** A call with the lease on it. */
export interface Claim extends Holder {
  /** As it was submitted, without delay and deadline, which are times of the store now. */
  readonly call: AdmittedCall
  /** How often the call was claimed, this time included. */
  readonly deliveries: number
  /** Number of earlier leases that expired, whose workers may have run the call. */
  readonly lost: number
  /** Number of those whose worker had called `begin`. */
  readonly deaths: number
  /** Whether an earlier worker called `begin` and recorded no outcome. */
  readonly begun: boolean
  /** Number of earlier releases because a worker could not handle it. */
  readonly faults: number
  /** Number of earlier releases because a circuit of its tool was open. */
  readonly rests: number
  /** Its time limit to wait for a worker with its tool has passed. */
  readonly waitedOut?: true
  readonly cancelled: boolean
  /** Time left until the deadline when it was claimed, in the store's time; negative when the deadline has passed. */
  readonly deadlineMs?: number
  /** It may not be flushed to disk yet. */
  readonly unflushed?: true
  /** The pending insert of the call: resolves once it is stored, and rejects when it failed. */
  readonly entering?: Promise<unknown>
}

/** A lease to release. */
export interface Released extends Holder {
  /** Not before this much time has passed. */
  readonly delayMs?: number
  /** It waits for an approval. */
  readonly asked?: boolean
  /**
   * It needs a tool that this worker does not have: it waits until a worker offers the tool, at most for the delay,
   * which counts from the first release for this need.
   */
  readonly needs?: string
  /** The counter that the release increments; none when absent. */
  readonly counts?: 'fault' | 'rest'
}

/** One report of a running call, as it is stored. */
export interface StoredReport extends Holder {
  readonly id: number
  /** JSON text of the report. */
  readonly event: string
}

/** The completion of a call. */
export interface Ending extends Holder {
  readonly result: Result | ChainResult
  /** JSON text of the result; absent when it was offloaded. */
  readonly text?: string
  readonly ref?: string
  readonly bytes: number
  /** Reports of the call that are not stored yet; the recorder stores them before the ending. */
  readonly events?: readonly StoredReport[]
  /** Where the tool threw, for the audit entry. */
  readonly thrownAt?: string
  /** Why the call also becomes a dead letter. */
  readonly dead?: { readonly reason: string }
  /** Version of the configuration that it ran with. */
  readonly config?: string
  /** As its claim has it. */
  readonly unflushed?: true
  /** Whether its caller waits in this process and no other process knows of it: its notification is not urgent. */
  readonly awaited?: () => boolean
  /** Optional fields of a call without callback and slot, which spare the store a lookup. */
  readonly plain?: PlainCall
}

/** Fields of an ended call that are recorded or decide about replies. */
export interface PlainCall extends Pick<AdmittedCall, 'tool'> {
  readonly principal: string
  /** It can be submitted again under its key, also over a broker. */
  readonly keyed?: true
  readonly reply?: Pick<ReplyAddress, 'transport' | 'to'>
}

/**
 * The durable state of calls: which worker may execute which, and how each ended. Time is the store's own, never the
 * caller's.
 *
 * States: `queued`, `delayed`, `asked`, `leased`, `finished`
 *
 * - → `queued`: `submit`. Of calls with a slot key, only as many as the key has slots can be claimed at a time.
 * - → `delayed`: `submit` with a delay.
 * - `queued` → `leased`: `claim`, under a fence that is higher than any before. `extend` prolongs the lease.
 * - `leased` → `finished`: `finish` by the worker with the lease.
 * - `leased` → `queued` | `delayed` | `asked`: `release`, with a delay, or until an approval is decided.
 * - `leased` → `queued`: `reclaim`, once the lease expired. Until the call is claimed again, its late holder may still
 *   finish it, but do nothing else.
 * - `delayed` → `queued`: `reclaim`, once it is due; or `offer`, for a call that waits for a tool.
 * - `asked` → `queued`: `resume`, after the decision; or `reclaim`, once it is due.
 * - `queued`, `delayed` or `asked` → `finished`: `cancel`, or `reclaim` after its deadline. The store ends only calls
 *   that no worker may have run, under a fence of its own.
 *
 * Every operation of a holder names its fence and does nothing when it is not the present one. A finished call keeps
 * its one result.
 *
 * - Concurrency: any number of processes; each operation is one transaction and takes many calls at once.
 * - Errors: rejects with STORE_UNAVAILABLE, after which nothing was done unless `details.outcome` is `unknown`. Then
 *   `outcomes` tells what became of a `finish`, and everything else can be done again.
 */
export interface CallStore {
  /**
   * Keeps calls durably. With `claim` a new one that could be claimed now, and needs no slot, is leased to its
   * submitter at once, as begun. Answers in order. A call that is submitted again under its own id is its own
   * duplicate, so that this can be repeated when the outcome is unknown. Past `notAfter` of the claim, a call whose
   * submitter still waits is kept without a claim, and one whose submitter gave up is not kept at all.
   *
   * With `unflushed` the calls are visible at once, but on disk only with the next flushed operation of any process: a
   * database that crashes before loses them, as if they had never been submitted. That is for calls that change
   * nothing, whose callers learn of them only once they have ended, or after a `flush`.
   */
  submit(
    calls: readonly AdmittedCall[],
    claim?: ClaimOptions,
    how?: { readonly unflushed?: boolean },
  ): Promise<readonly Submitted[]>
  /**
   * Sends calls to be submitted and claimed, unflushed, and answers their claims before the store has them, so that the
   * work can begin meanwhile. Only a `finish` may follow before a claim has entered: it is sent behind, and done after.
   * Undefined when that cannot be now, or for one of these calls; then nothing was sent. Absent where it never can.
   */
  readonly submitAhead?: (calls: readonly AdmittedCall[], claim: ClaimOptions) => Ahead | undefined
  /** The pending insert of a call of `submitAhead`; undefined for any other call. */
  readonly entering?: (callId: string) => Promise<unknown> | undefined
  /** Waits until everything submitted so far is on disk; returns whether this call is. */
  flush(callId: string): Promise<boolean>
  /** What `submit` would return for a call with a used key; undefined when it would be new. Stores nothing. */
  known(call: AdmittedCall): Promise<Submitted | undefined>
  /**
   * Leases up to `max` calls; a start is on the audit log for each. Each next call is of the tenant that has the fewest
   * leased calls for its weight; equal tenants alternate. Within a tenant the highest priority is first, then the
   * oldest; so are the answers, all together. Where `shares` limit how many calls of a tenant or of a principal may be
   * leased at a time, the limit holds across all workers.
   */
  claim(max: number, options: ClaimOptions): Promise<readonly Claim[]>
  /** Records that execution begins; returns the calls that may. Required before an effect that may happen only once. */
  begin(holders: readonly Holder[]): Promise<readonly string[]>
  /** Extends leases. Returns calls that are no longer leased as `lost`, and those to cancel as `cancelled`. */
  extend(
    holders: readonly Holder[],
    leaseMs: number,
  ): Promise<{ lost: readonly string[]; cancelled: readonly string[] }>
  /**
   * Ends leases, for now or for later. A call that this holder had begun may only be released when it changed nothing;
   * what is recorded of earlier holders stays. With `asked` it waits for a person until the delay has passed, unless it
   * was resumed or cancelled since it was claimed.
   */
  release(holders: readonly Released[]): Promise<void>
  /**
   * After a decision: makes a call in the state `asked` claimable. A leased call becomes claimable when its worker
   * releases it as asked, because the worker may not have seen the decision. Any other call is unchanged.
   */
  resume(callId: string): Promise<void>
  /**
   * Offers tools of a worker: calls that wait for one of them become claimable by workers with the label of the need.
   * Returns how many, at most `max`.
   */
  offer(needs: readonly string[], max: number): Promise<number>
  /** Completes calls: result, attempt, outbox, dead letter and audit in one transaction. Returns those accepted. */
  finish(endings: readonly Ending[]): Promise<readonly string[]>
  /** Which of these calls ended under exactly this fence; for a `finish` with unknown outcome. */
  outcomes(holders: readonly Holder[]): Promise<readonly string[]>
  /**
   * Takes away leases that ran out (`all` of them when their holders are known to be dead, or `none`), lets delayed and
   * asked calls whose time has come be claimed, and ends calls whose deadline passed and that no worker ran, at most
   * `max` of each. One that may have run, as a chain that is asked in the middle, is left to the next holder, which can
   * find out.
   */
  reclaim(options: ReclaimOptions): Promise<Reclaimed>
  /**
   * Ends a call that no worker holds or may have run as cancelled; else notifies its holder, or marks it for the next
   * one. A call of another tenant is absent.
   */
  cancel(callId: string, tenant: string): Promise<'ended' | 'asked' | 'finished' | 'absent'>
  /** Calls that wait to be claimed, those that wait for a slot included, counted up to `most`. */
  depth(most: number): Promise<number>
  /** Calls of a tenant that are not leased, by principal, delayed ones included; counted to about `most`. */
  waiting(tenant: string, most: number): Promise<ReadonlyMap<string, number>>
}

export interface ClaimOptions {
  readonly worker: string
  readonly leaseMs: number
  /** The worker's labels; it gets calls with a placement only when it has all their labels. */
  readonly labels?: { readonly [label: string]: string }
  /** Number of calls of each tenant that the worker runs already. */
  readonly busy?: { readonly [tenant: string]: number }
  /** Only calls of tenants that are not in `busy`, one of each. */
  readonly newcomers?: boolean
  /** The shares of named tenants, and under `*` of all others; absent when all are equal. */
  readonly shares?: { readonly [tenant: string]: Share }
  /**
   * In milliseconds of the store's time: an operation that runs later claims nothing. A database that was suspended
   * runs it late, when the worker may have stopped waiting and would not know of its leases.
   */
  readonly notAfter?: number
}

/** The share of a tenant in the workers. */
export interface Share {
  /** Twice the weight is twice the leased calls while others wait too; 1 when absent. */
  readonly weight?: number
  /** The concurrency limit of the tenant, over all workers. */
  readonly concurrency?: number
  /** The same for each of its principals; under `*` for those that are not named. */
  readonly principals?: { readonly [principal: string]: number }
}

export interface ReclaimOptions {
  /** Limit of calls of each kind. */
  readonly max: number
  /** Which leases are reclaimed; the expired ones when absent. */
  readonly leases?: 'expired' | 'all' | 'none'
  /**
   * In milliseconds of the store's time: an operation that runs later reclaims no lease. A database that was suspended
   * runs it late, when leases have expired that no worker could extend.
   */
  readonly notAfter?: number
}

export interface Reclaimed {
  /** Calls whose lease expired. */
  readonly lost: readonly string[]
  /** Delayed and asked calls that are ready now. */
  readonly promoted: number
  /** Calls that were ended because of their deadline. */
  readonly expired: readonly string[]
  /** Tools that calls wait for; at most a thousand, absent when none. */
  readonly wanted?: readonly string[]
  /** Time until the next delayed or asked call is due; 0 when there may be more to do now. */
  readonly nextMs?: number
  /** When it ran, in milliseconds of the store's time; absent without `notAfter`. */
  readonly at?: number
}
