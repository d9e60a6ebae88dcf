import type { CallKind, ChainResult, EffectClass, Identity, JsonObject, OnCircuitOpen, Result } from '@gantry/contract'

/** A call that passed every check and is to be kept. */
export interface AdmittedCall {
  readonly callId: string
  readonly kind: CallKind
  /** As established by the host when the call came in. */
  readonly identity: Identity
  /** The caller's name for the call; the same key of the same principal is the same call. */
  readonly key?: string
  /** Hash of what the call asks for; the same key with another one is a conflict. */
  readonly fingerprint: string
  /** Exact id with version; `chain` for a chain. */
  readonly tool: string
  /**
   * Of the definition that was checked: of all of it when the caller pinned it, else of what the call depends on. Of a
   * chain the JSON list of the tools of its steps that were there.
   */
  readonly digest?: string
  readonly effect: EffectClass
  /** JSON text of the arguments or of the chain; absent when it was kept as an artifact. */
  readonly payload?: string
  /** Digest of the file that holds the payload. */
  readonly payloadRef?: string
  readonly payloadBytes: number
  readonly timeoutMs?: number
  /** Higher is sooner; 0 unless told. */
  readonly priority?: number
  /** Not before this much time has passed. */
  readonly delayMs?: number
  /** Worthless after this much time; whoever finds it then ends it as a timeout. */
  readonly deadlineMs?: number
  /** Of calls with the same key, at most `limit` are claimed at a time, in the order in which they came. */
  readonly slot?: { readonly key: string; readonly limit: number }
  /** Where to send the result. */
  readonly callback?: string
  /** Whom to answer over the broker that it came from. */
  readonly reply?: ReplyAddress
  /** Only workers with these labels may claim it. */
  readonly placement?: { readonly [label: string]: string }
  readonly trace?: string
  /** The dead letter that this call repeats. */
  readonly redriveOf?: string
  /** Under what its tools know the work when that is not this call: the one it repeats. */
  readonly effectKey?: string
  /** What the gateway of the caller says of the occasion, for the tool: bounded data from outside, never identity. */
  readonly origin?: JsonObject
  /** What becomes of it while a circuit is open; it fails when absent, or each call of a chain does what its tool says. */
  readonly onCircuitOpen?: OnCircuitOpen
}

/** Where the answer to a message goes; written by the codec that read it, and read by nobody else. Plain JSON. */
export interface ReplyAddress {
  readonly codec: string
  /** Which broker: `kafka` or `redis`. */
  readonly transport: string
  /** The topic or the stream; checked before the call was admitted. */
  readonly to: string
  /** What the sender knows the call by, and what else belongs into the answer. */
  readonly data: JsonObject
}

/** What became of a call that was handed in. */
export type Submitted =
  | { readonly kind: 'new'; readonly callId: string; readonly claim?: Claim }
  /** The same key and the same call: here is where that one is. */
  | { readonly kind: 'duplicate'; readonly callId: string }
  /** The same key, another call. */
  | { readonly kind: 'conflict'; readonly callId: string }

/** What was submitted ahead. */
export interface Ahead {
  readonly claims: readonly Claim[]
  /** As of `submit`. */
  readonly submitted: Promise<readonly Submitted[]>
}

/** The right to work on a call; whoever holds the highest fence is the only one whose outcome counts. */
export interface Holder {
  readonly callId: string
  readonly fence: number
}

/** A call with the right to work on it. */
export interface Claim extends Holder {
  /** As it was handed in, but for its delay and its deadline, which have become times of the store. */
  readonly call: AdmittedCall
  /** How often the call was handed out, this time included. */
  readonly deliveries: number
  /** How many earlier holders let their lease run out, so that they may have run it; one who handed it back did not. */
  readonly lost: number
  /** How many of those had said that they begin. */
  readonly deaths: number
  /** There was such a one: it said that it begins, and never said how it ended. */
  readonly begun: boolean
  /** How many earlier holders handed it back because they could not handle it. */
  readonly faults: number
  /** How many earlier holders handed it back because its tool was at rest. */
  readonly rests: number
  /** It waited for a worker that has its tool, for as long as it may, and none came. */
  readonly waitedOut?: true
  readonly cancelled: boolean
  /** Time left until the deadline when it was claimed, in the store's time; negative when it is over. */
  readonly deadlineMs?: number
  /** It may not be on disk yet. */
  readonly unflushed?: true
  /** The call is on its way into the store: resolves once it is there, and rejects when it will not be. */
  readonly entering?: Promise<unknown>
}

/** What hands a call back. */
export interface Released extends Holder {
  /** Not before this much time has passed. */
  readonly delayMs?: number
  /** It waits for a person. */
  readonly asked?: boolean
  /**
   * It needs a tool that this worker does not have: it waits until a worker with the tool offers to take it, though not
   * longer than the delay, which counts from the first time that the tool was missed.
   */
  readonly needs?: string
  /** What is held against the call; absent when it merely goes on later. */
  readonly counts?: 'fault' | 'rest'
}

/** One report of a running call, as it is stored. */
export interface StoredReport extends Holder {
  readonly id: number
  /** JSON text of the report. */
  readonly event: string
}

/** What ends a call. */
export interface Ending extends Holder {
  readonly result: Result | ChainResult
  /** JSON text of the result; absent when it was kept as an artifact. */
  readonly text?: string
  readonly ref?: string
  readonly bytes: number
  /** What the call reported and the store has not taken yet; the recorder stores them before the ending. */
  readonly events?: readonly StoredReport[]
  /** Why the call goes to the dead letters besides. */
  readonly dead?: { readonly reason: string }
  /** Version of the configuration that it ran under. */
  readonly config?: string
  /** As its claim has it. */
  readonly unflushed?: true
  /** Whether its caller still waits for it here, and was told nothing of it: others may hear of its end later. */
  readonly awaited?: () => boolean
  /** What is known of a call with neither a callback nor a slot, which then need not be looked up; it may be absent. */
  readonly plain?: PlainCall
}

/** Of a call that is ended: what goes on record, and who may wait for its answer. */
export interface PlainCall extends Pick<AdmittedCall, 'tool'> {
  readonly principal: string
  /** Others can hand it in again, over a broker, too. */
  readonly keyed?: true
  readonly reply?: Pick<ReplyAddress, 'transport' | 'to'>
}

/**
 * The durable truth about calls: who may work on which, and how each ended. Time is the store's own, never the caller's.
 *
 * A call is *queued* (or *delayed* until its time) from `submit` on; of those with a slot key, only as many as the key
 * has slots can be claimed, the others stand behind them. `claim` leases a call to one holder under a fence that is
 * higher than any before. While the lease lasts nobody else gets it; `extend` prolongs it. The holder ends it with
 * `finish`, or hands it back with `release`: for now, for later, or *asked*, until a person has decided and `resume` says
 * so. A lease that ran out is taken away by `reclaim`, after which the call is
 * queued again; until somebody claims it, its late holder may still finish it, but do nothing else. Every operation of a
 * holder names his fence and does nothing when it is not the present one. A finished call has exactly one result for
 * ever. The store itself ends only calls of which it knows that nobody ran them, under a fence of its own.
 *
 * - Concurrency: any number of processes; each operation is one transaction and takes many calls at once.
 * - Errors: rejects with STORE_UNAVAILABLE, after which nothing was done unless `details.outcome` is `unknown`. Then
 *   `outcomes` tells what became of a `finish`, and everything else can be done again.
 */
export interface CallStore {
  /**
   * Keeps calls durably. With `claim` a new one that could be claimed now, and needs no slot, is leased to its submitter
   * at once, as begun. Answers in order. A call that is handed in again under its own id is its own duplicate, so that
   * this can be repeated when the outcome is unknown. Past `notAfter` of the claim, a call whose submitter still waits is
   * kept without a claim, and one whose submitter gave up is not kept at all.
   *
   * With `unflushed` all can see them at once, but they are on disk only with the next operation of anybody that is: a
   * database that crashes before takes them along, as if they had never been handed in. That is for calls that change
   * nothing, whose callers hear of them only once they have ended, or after a `flush`.
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
  /** Resolves once a call that was sent ahead is there, and rejects when it will not be; undefined for any other call. */
  readonly entering?: (callId: string) => Promise<unknown> | undefined
  /** Waits until all that was handed in so far is on disk; whether this call is. */
  flush(callId: string): Promise<boolean>
  /** What `submit` would say of a call whose key was used before, without keeping it; undefined when it would be new. */
  known(call: AdmittedCall): Promise<Submitted | undefined>
  /**
   * Leases up to `max` calls; a start is on the audit record for each. Tenants take turns: each next call is of the one
   * that has the least in hand for its weight, and equals follow each other in a circle. Within a tenant the highest priority is first, then the oldest; so are the answers, all together. Where `shares` limit how
   * many calls of a tenant or of a principal may be held at a time, there are never more, whoever claims.
   */
  claim(max: number, options: ClaimOptions): Promise<readonly Claim[]>
  /** Says durably that the work begins; answers those that may. Required before an effect that may happen once only. */
  begin(holders: readonly Holder[]): Promise<readonly string[]>
  /** Prolongs leases. Those that are no longer held are `lost`; those whose caller wants them ended `cancelled`. */
  extend(
    holders: readonly Holder[],
    leaseMs: number,
  ): Promise<{ lost: readonly string[]; cancelled: readonly string[] }>
  /**
   * Hands calls back, for now or for later. A call that this holder had begun may only be handed back when he changed
   * nothing; what was known of holders before him stays known. With `asked` it waits for a person until the delay is
   * over, unless it was resumed or cancelled since it was claimed.
   */
  release(holders: readonly Released[]): Promise<void>
  /**
   * Says that a person has decided: a call that is asked can be claimed at once. One that somebody holds will be, should
   * he hand it back as asked, because he may not have seen the decision. Anything else is left as it is.
   */
  resume(callId: string): Promise<void>
  /**
   * Says that there is a worker that has these tools: calls that wait for one of them can be claimed by workers with the
   * label of the need. Answers how many, at most `max`.
   */
  offer(needs: readonly string[], max: number): Promise<number>
  /** Ends calls: result, attempt, outbox, dead letter and audit in one transaction. Answers those that were accepted. */
  finish(endings: readonly Ending[]): Promise<readonly string[]>
  /** Which of these calls ended under this very fence; for those who do not know whether their `finish` was done. */
  outcomes(holders: readonly Holder[]): Promise<readonly string[]>
  /**
   * Takes away leases that ran out (`all` of them when their holders are known to be dead, or `none`), lets delayed and
   * asked calls whose time has come be claimed, and ends calls whose deadline passed and that nobody ran, at most `max`
   * of each. One that somebody may have run, as a chain that is asked in the middle, is left to the next claimant, who
   * can find out.
   */
  reclaim(options: ReclaimOptions): Promise<Reclaimed>
  /**
   * Ends a call that nobody works on or may have run as cancelled; else its holder, or the next one, is told to.
   * What belongs to another tenant is absent.
   */
  cancel(callId: string, tenant: string): Promise<'ended' | 'asked' | 'finished' | 'absent'>
  /** Calls that wait to be claimed, those that stand behind others of their slot key included, counted up to `most`. */
  depth(most: number): Promise<number>
  /** Calls of a tenant that nobody holds, delayed ones included, by principal; counted up to `most` or somewhat over. */
  waiting(tenant: string, most: number): Promise<ReadonlyMap<string, number>>
}

export interface ClaimOptions {
  readonly worker: string
  readonly leaseMs: number
  /** What the worker is or has; of calls with a placement it gets those whose labels it has, all of them. */
  readonly labels?: { readonly [label: string]: string }
  /** How many calls of each tenant the worker has in hand already. */
  readonly busy?: { readonly [tenant: string]: number }
  /** Only calls of tenants that are not in `busy`, one of each. */
  readonly newcomers?: boolean
  /** Of tenants that differ from others, and under `*` of all who are not named; absent when all are equal. */
  readonly shares?: { readonly [tenant: string]: Share }
  /**
   * In milliseconds of the store's time: when the operation is done later than this, it claims nothing. A database that
   * stood still does it late, when the worker may have given up waiting and would not know of what it holds.
   */
  readonly notAfter?: number
}

/** What a tenant gets of the workers. */
export interface Share {
  /** Twice the weight is twice the calls in hand while others wait too; 1 when absent. */
  readonly weight?: number
  /** So many calls of the tenant are held at a time, by all workers together. */
  readonly concurrency?: number
  /** The same for each of its principals; under `*` for those who are not named. */
  readonly principals?: { readonly [principal: string]: number }
}

export interface ReclaimOptions {
  /** How many calls of each kind. */
  readonly max: number
  /** Which leases are taken away; those that ran out when absent. */
  readonly leases?: 'expired' | 'all' | 'none'
  /**
   * In milliseconds of the store's time: when the operation is done later than this, it takes no lease away. A database
   * that stood still does it late, and then leases ran out that no holder could renew.
   */
  readonly notAfter?: number
}

export interface Reclaimed {
  /** Calls whose holder let his lease run out. */
  readonly lost: readonly string[]
  /** Delayed and asked calls that are ready now. */
  readonly promoted: number
  /** Calls that were ended because of their deadline. */
  readonly expired: readonly string[]
  /** Tools that calls wait for because workers that claimed them did not have them; a thousand at most, absent when none. */
  readonly wanted?: readonly string[]
  /** When the next delayed or asked call is due, from now; 0 when there may be more to do at once. */
  readonly nextMs?: number
  /** When it was done, in milliseconds of the store's time; absent without `notAfter`. */
  readonly at?: number
}
