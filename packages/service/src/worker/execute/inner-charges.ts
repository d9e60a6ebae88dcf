import { randomInt } from 'node:crypto'
import { type ErrorInfo, type Identity, type Result, ToolError } from '@gantry/contract'
import {
  createBulkhead,
  type Executor,
  type InnerNames,
  type InnerOutcome,
  type InnerRequest,
  type ProgramJournal,
  retry,
} from '@gantry/core'
import { endedOutcome } from '../../storage/calls/call-facts.ts'

/** The limits of tenants and principals that apply to inner calls. */
export interface InnerGate {
  /**
   * Counts a call and spends its cost; resolves with the function that gives the cost back. Undefined without limits.
   */
  inside(identity: Identity, cost: number): Promise<() => void> | undefined
  /** The concurrency limit of this identity; infinite without one. */
  mostAtOnce(identity: Identity): number
}

interface InnerRequested {
  readonly callId: string
  readonly tool: string
  readonly signal: AbortSignal
  /** Whether its cost was spent when the outer call was admitted. */
  readonly paid?: boolean
}

/**
 * Charges the inner calls of one attempt at a chain or a program to the limits of its caller.
 * | Each call that is made takes a token of the rate and spends the cost of its tool, at that moment; a call that is
 * replayed from a journal is not charged. The cost of a call that was refused before its tool could run is given back.
 * The outer call holds one slot of its tenant's concurrency limit; the inner calls stay within that limit too, and wait
 * here. A nested program takes no slot of its own, because its calls do: otherwise they could wait for each other.
 */
export interface InnerCharges {
  /**
   * Makes the call when the limits allow it; a refusal is its Result, and nothing began. It waits up to a second for a
   * limit, and for unavailable buckets until they are back.
   * - Cancellation: rejects with the signal's reason, unless the call is already being made.
   */
  call(asked: InnerRequested, make: () => Promise<Result>): Promise<Result>
}

const patience = { attempts: Number.POSITIVE_INFINITY, delayMs: 10, maxDelayMs: 1_000 }
/** Far more than the concurrent calls of a chain or a program. */
const longestLine = 1_000_000

export function createInnerCharges(
  gate: InnerGate,
  executor: Pick<Executor, 'catalog' | 'find'>,
  identity: Identity,
): InnerCharges {
  const most = gate.mostAtOnce(identity)
  const places = Number.isFinite(most) ? createBulkhead({ concurrency: most, queue: longestLine }) : undefined
  /** The function that gives the cost back when the call may be made, else its Result. */
  const enter = async ({ callId, tool, signal }: InnerRequested, cost: number) => {
    try {
      const pass = await retry(() => gate.inside(identity, cost), { rule: patience, mayRepeat: mayPass, signal })
      return { refund: pass ?? (() => undefined) }
    } catch (error) {
      if (isLimit(error)) return { refused: refusal({ callId, tool }, error) }
      throw error
    }
  }
  const charged = async (asked: InnerRequested, cost: number, make: () => Promise<Result>): Promise<Result> => {
    const { refund, refused } = await enter(asked, cost)
    if (refused !== undefined) return refused
    const result = await make()
    if (isRefused(result.error)) refund()
    return result
  }
  return {
    async call(asked, make) {
      const cost = asked.paid === true ? 0 : costOf(asked.tool, executor, identity)
      const work = () => charged(asked, cost, make)
      return places === undefined || isProgramTool(executor.catalog, asked.tool)
        ? work()
        : places.run(work, asked.signal)
    },
  }
}

/** A tool that is hidden from the caller, or not known yet, costs nothing, so that its price does not reveal it. */
function costOf(id: string, executor: Pick<Executor, 'find'>, identity: Identity): number {
  try {
    return executor.find(id, { identity }).tool.cost ?? 0
  } catch {
    return 0
  }
}

function mayPass(error: unknown): boolean {
  return ToolError.is(error) && (error.code === 'STORE_UNAVAILABLE' || error.code === 'RATE_LIMITED')
}

function isLimit(error: unknown): error is ToolError {
  return ToolError.is(error) && (error.code === 'RATE_LIMITED' || error.code === 'LIMIT_EXCEEDED')
}

/** Whether a call ended, or waits, before its tool ran. */
function isRefused(error: ErrorInfo | undefined): boolean {
  const before = ['lookup', 'validate-input', 'authorize', 'resolve']
  const atRest = error?.code === 'CIRCUIT_OPEN' || error?.code === 'RATE_LIMITED'
  return error?.effect === 'none' && (atRest || before.includes(error.stage))
}

function refusal(call: { readonly callId: string; readonly tool: string }, error: ToolError): Result {
  const ended = endedOutcome({ ...call, kind: 'call' }, error, 0, new Date())
  const retryAfterMs = error.details?.retryAfterMs
  if (ended.error === undefined || retryAfterMs === undefined) return ended
  return { ...ended, error: { ...ended.error, details: { retryAfterMs, scope: 'caller' } } }
}

interface ChargedPorts {
  readonly executor: Pick<Executor, 'catalog'>
  readonly charges: InnerCharges
}

/**
 * The journal of a program that is a step of a chain, as part of the names of that step; nothing for other tools. It
 * records nothing, because such a program runs as one call of its effect class. It exists so that all calls of the
 * program, at any depth, are charged to the limits of the chain's caller.
 */
export function programOf(ports: ChargedPorts, tool: string, callId: string): { readonly program?: ProgramJournal } {
  return isProgramTool(ports.executor.catalog, tool) ? { program: chargedProgram(ports, callId) } : {}
}

function chargedProgram(ports: ChargedPorts, callId: string): ProgramJournal {
  return {
    seed: randomInt(2 ** 31),
    startedMs: Date.now(),
    outcomes: [],
    async settle(ask, make) {
      return { outcome: await outcomeOf(ask, `${callId}.${ask.number}`, make, ports), atMs: Date.now() }
    },
  }
}

async function outcomeOf(
  { kind, tool, signal }: InnerRequest,
  callId: string,
  make: (names?: InnerNames) => Promise<InnerOutcome>,
  ports: ChargedPorts,
): Promise<InnerOutcome> {
  if (kind === 'chain') return make({ around: (step, call) => chargedStep({ ...step, callId }, call, ports) })
  if (tool === undefined) return make()
  const result = await ports.charges.call({ callId, tool, signal }, async () => {
    const made = await make({ callId, ...programOf(ports, tool, callId) })
    if (made.kind === 'result') return made.result
    throw new ToolError('INTERNAL', `The outcome of inner call ${callId} is not a Result.`)
  })
  return { kind: 'result', result }
}

/** A call of a chain within the program. */
function chargedStep(
  { tool, signal, callId }: { readonly tool: string; readonly signal: AbortSignal; readonly callId: string },
  call: (names?: Pick<InnerNames, 'program'>) => Promise<Result>,
  ports: ChargedPorts,
): Promise<Result> {
  return ports.charges.call({ callId, tool, signal }, () => call(programOf(ports, tool, callId)))
}

const builtin = 'code:program'

/** Whether a tool runs programs over tools; the one that every executor has need not be in its catalog. */
export function isProgramTool(catalog: Executor['catalog'], id: string): boolean {
  try {
    return catalog.find(id).tool.backends.some(({ kind }) => kind === 'program')
  } catch {
    return id === builtin || id.startsWith(`${builtin}:`)
  }
}
