import {
  type EffectClass,
  type Identity,
  type Isolation,
  type JsonObject,
  type OnCircuitOpen,
  ToolError,
} from '@gantry/contract'
import { isStandardSchema } from '@gantry/json-schema'
import type { Decision, PolicyRequest } from '../policies/policy.ts'
import { ask, asksApproval, everyCall, missingPermissions } from './authorize.ts'
import { lookup } from './lookup.ts'
import type { CallRequest, Ports } from './ports.ts'
import type { PreparedTool } from './prepare.ts'
import { failureOf } from './result.ts'
import { Run } from './run.ts'
import { plainArgs, validateInput } from './validate.ts'

/** A call that would be let through as things stand, and what whoever makes it later needs to know. */
export interface CheckedCall {
  /** `namespace:name:version` of the tool that was meant. */
  readonly id: string
  /** `namespace:name`. */
  readonly key: string
  readonly version: string
  /** Of the definition that was checked; as `schemaDigest` of the call it refuses another one. */
  readonly digest: string
  /** Of what the call depends on; as `schemaDigest` it refuses another one, though not another description. */
  readonly callDigest: string
  readonly effect: EffectClass
  /** The time that the call would get. */
  readonly timeoutMs: number
  /** Calls with this key do not run more than so many at a time; absent when there is no such limit. */
  readonly concurrency?: { readonly key: string; readonly limit: number }
  /** Only where there are these labels may the call run; absent when anywhere will do. */
  readonly placement?: { readonly [label: string]: string }
  /** Units that the call takes of budgets; absent when it costs nothing. */
  readonly cost?: number
  /** What becomes of the call while its circuit is open; absent when neither the call nor its tool says so. */
  readonly onCircuitOpen?: OnCircuitOpen
  /** It is a program over tools, which a host that keeps a journal can take up again. */
  readonly program?: true
  /** Somebody must approve the call before it runs. */
  readonly asks: boolean
  /** A plain copy of the arguments as they were given, to call with. */
  readonly args: JsonObject
}

/**
 * The stages before the backend, without the call: nothing runs, nobody is asked to approve, nothing is on record.
 * Rejects with the ToolError that would have ended the call. What it allows is asked again when the call is made.
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

/** No secret was fetched and nothing ran, so there is nothing to hide and nothing can have happened. */
function harmless({ code, message, stage, retryable, details, cause }: ToolError): ToolError {
  return new ToolError(code, message, { stage, retryable, effect: 'none', cause, ...(details && { details }) })
}

/** What a vendor's checker made of the arguments must not go through it a second time. */
function givenArgs(run: Run, { input, argsCopy }: PreparedTool, checked: JsonObject): JsonObject {
  return isStandardSchema(input) ? plainArgs(run.request.args, argsCopy) : checked
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

/** What would be decided on a call, and why. */
export interface Explanation {
  /** `namespace:name:version` of the tool that was meant. */
  readonly tool: string
  readonly effect: Decision['effect']
  readonly reason: string
  /** The rule that decides; absent when none does. */
  readonly rule?: string
  /** Permissions that the tool asks for and the caller does not hold. */
  readonly missing: readonly string[]
  /** The least isolation that a program of the call would get. */
  readonly floor?: Isolation
  /** Roles that may approve besides those who always may. */
  readonly approvers?: readonly string[]
  /** Whether there is such a tool for the caller; where not, a call ends with TOOL_NOT_FOUND. */
  readonly exists: boolean
  /** Whether discovery shows it to the caller. */
  readonly visible: boolean
  /** Whether the arguments fit the tool; where not, a call ends with INPUT_INVALID before anything is decided. */
  readonly valid: boolean
}

/**
 * The decision on a call, without the call: nothing runs, nobody is asked, nothing is on record. `asker` is who hears
 * it, to whom a tool must be there that he is told of. Rejects with what keeps a decision from being made.
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

/** Arguments that do not fit are decided on as they are, so that somebody can ask before he has all of them. */
async function judgedArgs(run: Run, tool: PreparedTool): Promise<{ args: JsonObject; valid: boolean }> {
  try {
    return { args: await validateInput(run, tool), valid: true }
  } catch (error) {
    if (!ToolError.is(error) || error.code !== 'INPUT_INVALID') throw error
    return { args: plainArgs(run.request.args, tool.argsCopy), valid: false }
  }
}
