import {
  type EffectClass,
  type Identity,
  type Isolation,
  type JsonObject,
  type OnCircuitOpen,
  ToolError,
} from '@gantry/contract'
import type { Decision, PolicyRequest } from '../policies/policy.ts'
import type { RuntimeChoice } from '../runtimes/runtimes.ts'
import { ask, asksApproval, everyCall, missingPermissions } from './authorize.ts'
import { failureOf } from './failure.ts'
import { lookup, type PreparedTool } from './lookup.ts'
import type { CallRequest, Ports } from './ports.ts'
import { resolve } from './resolve.ts'
import { Run } from './run.ts'
import { plainArgs, validateInput } from './validate.ts'

/** A call that would be allowed now, with the data needed to make it later. */
export interface CheckedCall {
  /** `namespace:name:version` of the tool that was meant. */
  readonly id: string
  /** `namespace:name`. */
  readonly key: string
  readonly version: string
  /** Digest of the checked definition. As `schemaDigest` of the call it refuses any other definition. */
  readonly digest: string
  /** Digest of the parts that a call depends on. As `schemaDigest` it refuses a change of those, not of the description. */
  readonly callDigest: string
  readonly effect: EffectClass
  /** The timeout that the call would get. */
  readonly timeoutMs: number
  /** The concurrency limit shared by calls with this key; absent when there is none. */
  readonly concurrency?: { readonly key: string; readonly limit: number }
  /** Labels that a worker needs to run the call; absent when any worker may. */
  readonly placement?: { readonly [label: string]: string }
  /** Budget units that the call costs; absent when it costs none. */
  readonly cost?: number
  /** Whether the call waits or fails while its circuit is open; absent when neither the call nor its tool sets it. */
  readonly onCircuitOpen?: OnCircuitOpen
  /** The call is a program over tools, which a host with a journal can resume. */
  readonly program?: true
  /** The call needs approval before it runs. */
  readonly asks: boolean
  /** A plain copy of the original arguments, to call with. */
  readonly args: JsonObject
}

/**
 * The stages before the backend, without the call: nothing runs, no approval is requested, nothing is recorded.
 * Rejects with the ToolError that would end the call. The call itself is authorized again when it is made.
 */
export async function checkCall(request: CallRequest, ports: Ports): Promise<CheckedCall> {
  const run = new Run(request, ports)
  try {
    const found = lookup(run)
    const tool = found instanceof Promise ? await found : found
    const checked = validateInput(run, tool)
    const args = checked instanceof Promise ? await checked : checked
    const asks = await asksApproval(run, tool, args)
    return describeCall(run, tool, givenArgs(run, tool, args), asks)
  } catch (error) {
    throw harmless(failureOf(run, error))
  } finally {
    run.end()
  }
}

/** The check fetched no secret and ran nothing, so the error needs no redaction and had no effect. */
function harmless({ code, message, stage, retryable, details, cause }: ToolError): ToolError {
  return new ToolError(code, message, { stage, retryable, effect: 'none', cause, ...(details && { details }) })
}

/** Arguments that a Standard Schema has transformed must not be validated by it again. */
function givenArgs(run: Run, { input, argsCopy }: PreparedTool, checked: JsonObject): JsonObject {
  return '~standard' in input ? plainArgs(run.request.args, argsCopy) : checked
}

function describeCall(run: Run, { entry }: PreparedTool, args: JsonObject, asks: boolean): CheckedCall {
  const { id, key, digest, callDigest, tool } = entry
  const { version, effect, concurrency: limit, concurrencyKey = key, placement, cost = 0 } = tool
  const concurrency = limit === undefined ? {} : { concurrency: { key: concurrencyKey, limit } }
  const place = placement === undefined || Object.keys(placement).length === 0 ? {} : { placement }
  const price = cost === 0 ? {} : { cost }
  const onCircuitOpen = run.request.onCircuitOpen ?? tool.onCircuitOpen
  const open = onCircuitOpen === undefined ? {} : { onCircuitOpen }
  const program = tool.backends.some(({ kind }) => kind === 'program') ? ({ program: true } as const) : {}
  return {
    id,
    key,
    version,
    digest,
    callDigest,
    effect,
    timeoutMs: run.timeoutMs(),
    ...concurrency,
    ...place,
    ...price,
    ...open,
    ...program,
    asks,
    args,
  }
}

/** The decision on a call, with its reasons. */
export interface Explanation {
  /** `namespace:name:version` of the tool that was meant. */
  readonly tool: string
  readonly effect: Decision['effect']
  readonly reason: string
  /** The rule that decides; absent when no rule matches. */
  readonly rule?: string
  /** Permissions of the tool that the caller lacks. */
  readonly missing: readonly string[]
  /** The least isolation that a program of the call would get. */
  readonly floor?: Isolation
  /** Roles that may approve, in addition to the permanent approvers. */
  readonly approvers?: readonly string[]
  /** Whether the tool exists for the caller; otherwise a call ends with TOOL_NOT_FOUND. */
  readonly exists: boolean
  /** Whether discovery shows it to the caller. */
  readonly visible: boolean
  /** Whether the arguments are valid; otherwise a call ends with INPUT_INVALID before the decision. */
  readonly valid: boolean
}

/**
 * The decision on a call, without the call: nothing runs, no approval is requested, nothing is recorded. `asker`
 * receives the explanation; a tool that is hidden from it is reported as absent. Rejects with the error that prevents a
 * decision.
 */
export async function explainCall(request: CallRequest, asker: Identity, ports: Ports): Promise<Explanation> {
  const run = new Run(request, ports)
  try {
    const found = lookup(run, {
      finds: ({ tool }) => ports.exists(asker, tool),
      sees: (entry) => ports.visible(asker, entry),
    })
    const tool = found instanceof Promise ? await found : found
    const { args, valid } = await judgedArgs(run, tool)
    const { entry } = tool
    const known = {
      tool: entry.id,
      missing: missingPermissions(request.identity, entry.tool),
      exists: ports.exists(request.identity, entry.tool),
      visible: ports.visible(request.identity, entry),
      valid,
    }
    if (!known.exists) return { ...known, effect: 'deny', reason: 'There is no such tool for this caller.' }
    if (known.missing.length > 0) return { ...known, effect: 'deny', reason: lacking(known.missing) }
    return { ...known, ...(await decided(run, { ...request, id: entry.id, tool: entry.tool, args })) }
  } catch (error) {
    throw harmless(failureOf(run, error))
  } finally {
    run.end()
  }
}

/** Where the program of a call would run, and the tool that was meant. */
export interface RuntimeExplanation extends RuntimeChoice {
  /** `namespace:name:version`. */
  readonly tool: string
}

/**
 * Where the program of a call would run, without the call: the stages before the backend, then the selection of a runtime.
 * Rejects with the ToolError that would end the call, and with INPUT_INVALID for a tool that runs in no sandbox.
 */
export async function explainRuntime(request: CallRequest, ports: Ports): Promise<RuntimeExplanation> {
  const run = new Run(request, ports)
  try {
    const found = lookup(run)
    const tool = found instanceof Promise ? await found : found
    const checked = validateInput(run, tool)
    const args = checked instanceof Promise ? await checked : checked
    await asksApproval(run, tool, args)
    const { backend, binding } = resolve(run, tool)
    const { entry } = tool
    if (backend.explain === undefined) {
      throw new ToolError('INPUT_INVALID', `${entry.id} runs on the backend ${backend.name}, which uses no sandbox.`)
    }
    const { identity, callId, signal = never } = request
    const call = { id: callId, tool: entry.tool, args, binding }
    return { tool: entry.id, ...(await backend.explain(call, { identity, floor: run.floor, signal })) }
  } catch (error) {
    throw harmless(failureOf(run, error))
  } finally {
    run.end()
  }
}

const never = new AbortController().signal

type Decided = Pick<Explanation, 'effect' | 'reason' | 'rule' | 'floor' | 'approvers'>

async function decided(run: Run, { identity, id, tool, args }: PolicyRequest): Promise<Decided> {
  const decision = await ask(run, { identity, id, tool, args })
  const { effect, reason = run.ports.policy === undefined ? noPolicy : allowed, rule } = decision
  const grounds = rule === undefined ? {} : { rule }
  if (effect === 'deny' || effect === 'unavailable') return { effect, reason, ...grounds }
  const floor = decision.floor === undefined ? {} : { floor: decision.floor }
  if (effect === 'allow' && tool.approval === 'always') return { effect: 'ask', reason: everyCall, ...floor }
  const approvers = effect === 'ask' && decision.approvers !== undefined ? { approvers: decision.approvers } : {}
  return { effect, reason, ...grounds, ...floor, ...approvers }
}

const noPolicy = 'There is no policy, and the caller holds what the tool asks for.'
const allowed = 'Nothing forbids it.'

function lacking(missing: readonly string[]): string {
  return `The caller lacks ${missing.length === 1 ? 'the permission' : 'the permissions'} ${missing.join(', ')}.`
}

/** Invalid arguments go to the policy unchanged, so that a decision can be explained before all of them are known. */
async function judgedArgs(run: Run, tool: PreparedTool): Promise<{ args: JsonObject; valid: boolean }> {
  try {
    return { args: await validateInput(run, tool), valid: true }
  } catch (error) {
    if (!ToolError.is(error) || error.code !== 'INPUT_INVALID') throw error
    return { args: plainArgs(run.request.args, tool.argsCopy), valid: false }
  }
}
