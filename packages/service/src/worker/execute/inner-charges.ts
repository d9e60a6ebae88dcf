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
import { endedOutcome } from '../../storage/calls/outcomes.ts'

/** Those limits of tenants and principals that count for calls inside of others. */
export interface InnerGate {
  /** Counts a call and spends what it costs; what it resolves with gives the cost back. Undefined when nothing limits. */
  inside(identity: Identity, cost: number): Promise<() => void> | undefined
  /** How many calls of this one may run at a time; infinite when nobody says. */
  mostAtOnce(identity: Identity): number
}

interface InnerRequested {
  readonly callId: string
  readonly tool: string
  readonly signal: AbortSignal
  /** Whether its cost was spent when the call around it was taken in. */
  readonly paid?: boolean
}

/**
 * Makes the calls of one attempt at a chain or a program count for the limits of whoever asked for it.
 *
 * Each call that is really made takes one of the rate and spends what its tool costs, at that moment; what is read back
 * from a journal is not made. Of what was refused before its tool could run the cost goes back. The call around holds one
 * place of its tenant's concurrency; of those inside no more run at a time than that limit says, so that many of them wait
 * here. A program inside has no place of its own, because its calls have: with one, they would wait for each other.
 */
export interface InnerCharges {
  /**
   * Makes the call when its caller may; a refusal is its Result, and nothing was begun then. A wait of up to a second is
   * waited for here, and buckets that are away are, until they are back.
   * - Cancellation: rejects with the signal's reason, unless the call is already being made.
   */
  call(asked: InnerRequested, make: () => Promise<Result>): Promise<Result>
}

const patience = { attempts: Number.POSITIVE_INFINITY, delayMs: 10, maxDelayMs: 1_000 }
/** Far more than a chain or a program may have under way. */
const longestLine = 1_000_000

export function createInnerCharges(
  gate: InnerGate,
  executor: Pick<Executor, 'catalog' | 'find'>,
  identity: Identity,
): InnerCharges {
  const most = gate.mostAtOnce(identity)
  const places = Number.isFinite(most) ? createBulkhead({ concurrency: most, queue: longestLine }) : undefined
  /** The way to give its cost back when the call may be made, else its Result. */
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

/** A tool that is not there for the caller, or not yet, costs nothing, so that its price does not tell of it. */
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

/** Whether a call came to its end, for now, before its tool. */
function isRefused(error: ErrorInfo | undefined): boolean {
  const before = ['lookup', 'validate-input', 'authorize', 'resolve']
  const atRest = error?.code === 'CIRCUIT_OPEN' || error?.code === 'RATE_LIMITED'
  return error?.effect === 'none' && (atRest || before.includes(error.stage))
}

function refusal(call: { readonly callId: string; readonly tool: string }, error: ToolError): Result {
  const ended = endedOutcome({ ...call, kind: 'call' }, error, 0, new Date()) as Result
  const retryAfterMs = error.details?.retryAfterMs
  if (ended.error === undefined || retryAfterMs === undefined) return ended
  return { ...ended, error: { ...ended.error, details: { retryAfterMs, scope: 'caller' } } }
}

interface ChargedPorts {
  readonly executor: Pick<Executor, 'catalog'>
  readonly charges: InnerCharges
}

/**
 * The journal of a program that is a step of a chain, as part of the names of that step; nothing for other tools. It keeps
 * nothing, because such a program is made whole or not at all, as its effect class says. It is there so that all that the
 * program calls, however deep within, counts for the limits of whoever asked for the chain.
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
    throw new ToolError('INTERNAL', `What came of ${callId} is no Result.`)
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
