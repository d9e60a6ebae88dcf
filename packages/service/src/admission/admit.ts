import { createHash, hash } from 'node:crypto'
import { type ChainStep, type Identity, type Issue, type Json, ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import type { Executor } from '@gantry/core'
import { canonicalJson } from '@gantry/core/internal/json/canonical'
import { copyJson } from '@gantry/core/internal/json/plain'
import type { AdmittedCall, CallInput } from '../storage/calls/call-store.ts'
import type { WorkerRecords } from '../storage/workers.ts'

export interface AdmitOptions {
  readonly executor: Executor
  readonly newId: () => string
  readonly now: () => number
  /** Spends the cost of the call, unless it is zero; rejects when the budget has less left. */
  readonly charge?: (cost: number) => Promise<void>
  /** Whether the worker is alive whose sessions have this tag. */
  readonly present?: ((tag: string) => Promise<boolean>) | undefined
  /** Stores a payload inline or as an artifact. */
  readonly keep: (
    text: string,
    callId: string,
    identity: Identity,
  ) => Promise<Pick<AdmittedCall, 'payload' | 'payloadRef' | 'payloadBytes'>>
}

/**
 * Makes an admitted call of an input: checks its shape, its tool, its arguments and the permissions of the caller. All
 * checks run before anything is stored or claimed, so that a refusal leaves nothing behind and its idempotency key
 * stays free.
 */
export async function admit(input: CallInput, identity: Identity, options: AdmitOptions): Promise<AdmittedCall> {
  checkInput(input)
  const asked = await (input.kind === 'chain'
    ? askedChain(input, identity, options)
    : askedTool(input, identity, options))
  if (asked.cost > 0) await options.charge?.(asked.cost)
  const text = JSON.stringify(asked.payload)
  const callId = options.newId()
  const { idempotencyKey: key, timeoutMs, priority, delayMs, callback, traceparent, origin } = input
  return {
    callId,
    identity,
    // The fingerprint is compared only when a call is submitted again under its key.
    fingerprint: key === undefined ? '' : fingerprint(input, asked.payload),
    ...asked.pinned,
    ...(await options.keep(text, callId, identity)),
    ...(key === undefined ? {} : { key }),
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
    ...(priority === undefined ? {} : { priority }),
    ...(delayMs === undefined ? {} : { delayMs }),
    ...(asked.pinned.placement?.[sessionLabel] === undefined ? {} : { deadlineMs: sessionWaitMs }),
    ...deadline(input, options.now()),
    ...(callback === undefined ? {} : { callback }),
    ...(traceparent === undefined ? {} : { trace: traceparent }),
    ...(origin === undefined ? {} : { origin }),
  }
}

interface Asked {
  readonly pinned: Pick<AdmittedCall, 'kind' | 'tool' | 'digest' | 'effect' | 'slot' | 'placement' | 'onCircuitOpen'>
  readonly payload: unknown
  readonly cost: number
}

const programPinned = { kind: 'code', effect: 'repeatable' } as const

/**
 * The tool as it is now. A changed definition is not run in its place; a change of description alone is accepted,
 * unless the caller pinned the whole definition.
 */
async function askedTool(input: CallInput, identity: Identity, { executor, present }: AdmitOptions): Promise<Asked> {
  const args = input.args ?? {}
  const { schemaDigest, timeoutMs, onCircuitOpen } = input
  const {
    id,
    callDigest,
    effect,
    concurrency,
    placement,
    program,
    cost = 0,
    onCircuitOpen: onOpen,
  } = await executor.check(input.tool ?? '', args, {
    identity,
    ...(schemaDigest === undefined ? {} : { schemaDigest }),
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
    ...(onCircuitOpen === undefined ? {} : { onCircuitOpen }),
  })
  const slot = concurrency === undefined ? {} : { slot: concurrency }
  const tag = namedSession(id, args)
  if (tag !== undefined && (await present?.(tag)) === false) throw sessionGone()
  const beside = tag === undefined ? placement : { ...placement, [sessionLabel]: tag }
  const place = beside === undefined ? {} : { placement: beside }
  // The inner calls of a program are journaled, so that the program is always repeatable.
  const whole = program === true ? programPinned : ({ kind: 'call', effect } as const)
  const open = onOpen === undefined ? {} : { onCircuitOpen: onOpen }
  const digest = schemaDigest ?? callDigest
  return { pinned: { ...whole, tool: id, digest, ...slot, ...place, ...open }, payload: args, cost }
}

/** The steps of a chain are recorded one by one, so that the chain itself is always repeatable. */
async function askedChain(
  { args, onCircuitOpen }: CallInput,
  identity: Identity,
  { executor }: AdmitOptions,
): Promise<Asked> {
  const { steps, input = null } = (args ?? {}) as { readonly steps: readonly ChainStep[]; readonly input?: Json }
  await executor.checkChain(steps, { input })
  const place = chainPlacement(steps, executor, identity)
  const cost = chainCost(steps, executor, identity)
  return {
    pinned: {
      kind: 'chain',
      tool: 'chain',
      effect: 'repeatable',
      ...place,
      ...stepTools(steps, executor, identity),
      ...(onCircuitOpen && { onCircuitOpen }),
    },
    payload: copyJson({ steps, input }),
    cost,
  }
}

/** The tools of the steps that are visible to the caller now; they must be visible where the chain runs, too. */
function stepTools(
  steps: readonly ChainStep[],
  { find }: Pick<Executor, 'find'>,
  identity: Identity,
): Pick<AdmittedCall, 'digest'> {
  const named = new Set(steps.flatMap((step) => ('parallel' in step ? step.parallel : [step])).map(({ tool }) => tool))
  const there = [...named].filter((tool) => {
    try {
      return find(tool, { identity }) !== undefined
    } catch {
      return false
    }
  })
  return there.length === 0 ? {} : { digest: JSON.stringify(there) }
}

/** Must be the same under the same idempotency key: the tool and the arguments, as the caller wrote them. */
function fingerprint({ kind, tool }: CallInput, payload: unknown): string {
  return hash('sha256', canonicalJson([kind, tool ?? null, payload]))
}

function deadline(input: CallInput, now: number): Pick<AdmittedCall, 'deadlineMs'> {
  if (input.deadline === undefined) return {}
  const deadlineMs = Date.parse(input.deadline) - now
  if (deadlineMs > 0) return { deadlineMs }
  const issue: Issue = { path: '/deadline', message: 'has passed' }
  throw new ToolError('PAYLOAD_INVALID', 'The deadline of the call has passed.', { details: { issues: [issue] } })
}

/**
 * The cost of a chain: each of its steps once. A tool that is hidden from the caller, or not registered yet, costs
 * nothing.
 */
function chainCost(steps: readonly ChainStep[], executor: Pick<Executor, 'find'>, identity: Identity): number {
  const tools = steps.flatMap((step) => ('parallel' in step ? step.parallel : [step])).map(({ tool }) => tool)
  return tools.reduce((sum, tool) => sum + costOf(tool, executor, identity), 0)
}

function costOf(tool: string, executor: Pick<Executor, 'find'>, identity: Identity): number {
  try {
    return executor.find(tool, { identity }).tool.cost ?? 0
  } catch {
    return 0
  }
}

type Placement = NonNullable<AdmittedCall['placement']>

/**
 * The placement of a chain: one worker runs it, so it needs the labels of all its tools. A tool that is hidden from the
 * caller, or not registered yet, adds no label. Throws CHAIN_INVALID when two steps need different values of a label.
 */
function chainPlacement(
  steps: readonly ChainStep[],
  executor: Pick<Executor, 'find'>,
  identity: Identity,
): Pick<AdmittedCall, 'placement'> {
  const placement = new Map<string, string>()
  for (const [index, step] of steps.entries()) {
    for (const { tool } of 'parallel' in step ? step.parallel : [step]) {
      for (const [label, value] of Object.entries(placementOf(tool, executor, identity))) {
        if ((placement.get(label) ?? value) !== value) throw scattered(index)
        placement.set(label, value)
      }
    }
  }
  return placement.size === 0 ? {} : { placement: Object.fromEntries(placement) }
}

function placementOf(tool: string, executor: Pick<Executor, 'find'>, identity: Identity): Placement {
  try {
    return executor.find(tool, { identity }).tool.placement ?? {}
  } catch {
    return {}
  }
}

function scattered(index: number): ToolError {
  const issue: Issue = { path: `/${index}`, message: 'must run elsewhere than the steps before it' }
  const message = `The chain is not valid: ${issue.path} ${issue.message}; split it into two chains.`
  return new ToolError('CHAIN_INVALID', message, { details: { issues: [issue] } })
}

const longestKey = 200
const longestDelayMs = 30 * 24 * 3_600_000
const highestPriority = 100
const isoTime = /^\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:\d\d)$/
/** Control characters, and the separators that some readers treat as the end of a line. */
const unprintable = /[\p{Cc}\u2028\u2029]/u

/** Refuses a call whose outer shape is wrong, with every failing path. */
function checkInput(input: CallInput): void {
  const issues = [...issuesOf(input)]
  if (issues.length === 0) return
  const [first] = issues
  const message = `The call is not valid: ${first?.path} ${first?.message}.`
  throw new ToolError('PAYLOAD_INVALID', message, { details: { issues } })
}

function* issuesOf(input: CallInput): Generator<Issue> {
  const { tool, idempotencyKey, schemaDigest, priority, timeoutMs, delayMs, deadline, traceparent, onCircuitOpen } =
    input
  if (input.kind === 'call' && !isName(tool, 500)) yield { path: '/tool', message: 'must be the id of a tool' }
  if (!isName(idempotencyKey ?? 'none', longestKey)) {
    yield { path: '/idempotencyKey', message: `must be a text of 1 to ${longestKey} printable characters` }
  }
  if (!isName(schemaDigest ?? 'none', longestKey)) yield { path: '/schemaDigest', message: 'must be a digest' }
  if (!isName(traceparent ?? 'none', longestKey)) yield { path: '/traceparent', message: 'must be a trace context' }
  if (priority !== undefined && !(Number.isInteger(priority) && Math.abs(priority) <= highestPriority)) {
    yield { path: '/priority', message: `must be a whole number from -${highestPriority} to ${highestPriority}` }
  }
  if (timeoutMs !== undefined && !(timeoutMs > 0 && Number.isInteger(timeoutMs) && timeoutMs < 2 ** 31)) {
    yield { path: '/timeoutMs', message: 'must be a whole number of milliseconds above 0' }
  }
  if (onCircuitOpen !== undefined && onCircuitOpen !== 'fail' && onCircuitOpen !== 'wait') {
    yield { path: '/onCircuitOpen', message: 'must be fail or wait' }
  }
  if (delayMs !== undefined && !(delayMs >= 0 && Number.isInteger(delayMs) && delayMs <= longestDelayMs)) {
    yield { path: '/delayMs', message: `must be a whole number of milliseconds up to ${longestDelayMs}` }
  }
  if (deadline !== undefined && !(isoTime.test(String(deadline)) && Date.parse(String(deadline)) > 0)) {
    yield { path: '/deadline', message: 'must be a time such as 2030-01-31T12:00:00Z' }
  }
}

/** For texts that are written to the database and to logs unchanged. */
function isName(value: unknown, longest: number): boolean {
  if (typeof value !== 'string' || value.length === 0 || value.length > longest) return false
  return value.isWellFormed() && !unprintable.test(value)
}

/** The label of the worker that owns the sessions of a tag. */
export const sessionLabel = 'gantry.sessions'

/** The prefix of a worker's session ids; it reveals nothing of the host. */
export function sessionTag(worker: string): string {
  return createHash('sha256').update(worker).digest('hex').slice(0, 12)
}

/** The longest idle time of a session: a call that waited longer would not find its session. */
export const sessionWaitMs = 600_000

/** The tag of the session that a call names, on whose worker it must run; undefined for all other calls. */
export function namedSession(tool: string, args: unknown): string | undefined {
  if (!/^code:session(?::|$)/i.test(tool)) return undefined
  const { session } = isObject(args) ? args : {}
  return typeof session === 'string' ? /^([0-9a-f]{12})\./.exec(session)?.[1] : undefined
}

/** For a session that was lost with its worker. */
export function sessionGone(): ToolError {
  const issue: Issue = { path: '/session', message: 'ended, because the worker that owned it was lost' }
  return new ToolError('INPUT_INVALID', `The session ${issue.message}; open a new one.`, {
    details: { issues: [issue] },
  })
}

/**
 * Returns a function that resolves whether a live worker owns the sessions of a tag: this process, named `own` when it
 * executes calls, or another.
 */
export function sessionHolders(
  workers: Pick<WorkerRecords, 'list'>,
  own: string | undefined,
): (tag: string) => Promise<boolean> {
  const ownTag = own === undefined ? undefined : sessionTag(own)
  return async (tag) => {
    if (tag === ownTag) return true
    const there = (await workers.list()).filter(({ state }) => state !== 'lost' && state !== 'draining')
    return there.some(({ worker, roles }) => roles.includes('worker') && sessionTag(worker) === tag)
  }
}
