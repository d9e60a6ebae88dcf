import { type Identity, type Isolation, type JsonObject, ToolError } from '@gantry/contract'
import type { Decision, PolicyRequest } from '../policies/policy.ts'
import { ask, everyCall, missingPermissions } from './authorize.ts'
import { harmless } from './check.ts'
import { failureOf } from './failure.ts'
import { lookup } from './lookup.ts'
import type { CallRequest, Ports } from './ports.ts'
import type { PreparedTool } from './prepare.ts'
import { Run } from './run.ts'
import { plainArgs, validateInput } from './validate-input.ts'

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
      finds: ({ tool }) => ports.there(asker, tool),
      sees: (entry) => ports.visible(asker, entry),
    })
    const tool = found instanceof Promise ? await found : found
    const { args, valid } = await judgedArgs(run, tool)
    const { entry } = tool
    const known = {
      tool: entry.id,
      missing: missingPermissions(request.identity, entry.tool),
      exists: ports.there(request.identity, entry.tool),
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
