import { hash } from 'node:crypto'
import { type ChainStep, type Identity, type Issue, type Json, ToolError } from '@gantry/contract'
import type { Executor } from '@gantry/core'
import { canonicalJson } from '@gantry/core/internal/json/canonical'
import { copyJson } from '@gantry/core/internal/json/copy'
import type { CallInput } from '../storage/call-input.ts'
import type { AdmittedCall } from '../storage/calls/call-store.ts'
import { chainCost } from './chain-cost.ts'
import { chainPlacement } from './chain-placement.ts'
import { checkInput } from './check-input.ts'
import { namedSession, sessionGone, sessionLabel, sessionWaitMs } from './session-placement.ts'

export interface IntakeOptions {
  readonly executor: Executor
  readonly newId: () => string
  readonly now: () => number
  /** Spends what the call costs, unless that is nothing; rejects when there is not so much left. */
  readonly charge?: (cost: number) => Promise<void>
  /** Whether the worker is there whose sessions have this tag. */
  readonly present?: ((tag: string) => Promise<boolean>) | undefined
  /** Keeps a payload inline or beside the row. */
  readonly keep: (
    text: string,
    callId: string,
    identity: Identity,
  ) => Promise<Pick<AdmittedCall, 'payload' | 'payloadRef' | 'payloadBytes'>>
}

/**
 * Makes of what came in a call that may be kept: its shape, then its tool, its arguments and the caller's right to it.
 * Everything is checked before anything is claimed, so that a refusal leaves nothing behind and its key stays free.
 */
export async function admit(input: CallInput, identity: Identity, options: IntakeOptions): Promise<AdmittedCall> {
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
    // Only what is handed in again under its key is compared.
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
 * The tool as it is now: a later one is not run in its place, though one that only describes itself differently is, unless
 * the caller pinned the whole definition.
 */
async function askedTool(input: CallInput, identity: Identity, { executor, present }: IntakeOptions): Promise<Asked> {
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
  // What a program does is recorded call by call, so that it may always be taken up again.
  const whole = program === true ? programPinned : ({ kind: 'call', effect } as const)
  const open = onOpen === undefined ? {} : { onCircuitOpen: onOpen }
  const digest = schemaDigest ?? callDigest
  return { pinned: { ...whole, tool: id, digest, ...slot, ...place, ...open }, payload: args, cost }
}

/** The steps of a chain are recorded one by one, so that a chain as such may always be taken up again. */
async function askedChain(
  { args, onCircuitOpen }: CallInput,
  identity: Identity,
  { executor }: IntakeOptions,
): Promise<Asked> {
  const { steps, input = null } = (args ?? {}) as { readonly steps: readonly ChainStep[]; readonly input?: Json }
  await executor.checkChain(steps, { input })
  const place = chainPlacement(steps, executor, identity)
  const cost = chainCost(steps, executor, identity)
  return {
    pinned: {
      ...{ kind: 'chain', tool: 'chain', effect: 'repeatable', ...place, ...stepTools(steps, executor, identity) },
      ...(onCircuitOpen && { onCircuitOpen }),
    },
    payload: copyJson({ steps, input }),
    cost,
  }
}

/** The tools of steps that are there for the caller now, as they are named: where the chain runs they must be there too. */
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

/** What must be the same under the same key: what is asked for, as the caller wrote it. */
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
