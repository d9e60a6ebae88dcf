import {
  type ActivityOptions,
  ApplicationFailure,
  CancellationScope,
  condition,
  defineQuery,
  defineSignal,
  isCancellation,
  proxyActivities,
  proxyLocalActivities,
  setHandler,
  sleep,
  type UntypedActivities,
  workflowInfo,
} from '@temporalio/workflow'
import {
  type AdvanceAnswer,
  type AdvanceInput,
  type ApprovalDecision,
  type AskedApproval,
  advanceActivity,
  approvalsQuery,
  type CallAnswer,
  type CallInput,
  type CallRequest,
  decideSignal,
  type JournalEntry,
  lostError,
  type WorkDocument,
  type WorkRequest,
} from '../protocol/work.ts'

/** Temporal ends a workflow with more history than about this. */
const mostRequests = 2_500
const retriedAttempts = 10

/**
 * ## A chain or a program as a workflow; its journal is the history
 *
 * | state       | entered when                                                | left by                                     |
 * | ----------- | ----------------------------------------------------------- | ------------------------------------------- |
 * | `advancing` | the work was handed over; outcomes of requests arrived      | the work waits for outcomes, or has ended   |
 * | `waiting`   | every request of the work is performed, sleeps or is asked  | an outcome; a cancellation; its timeout     |
 * | `stopping`  | it was cancelled or timed out                               | the last running request ends               |
 * | ended       | the work has an outcome                                     | –                                           |
 *
 * A local activity advances the work, which has no effects, so that it is repeated on another worker when one is lost. Each
 * call of a tool is an activity of its own, which is repeated as its effect class allows.
 */
export async function gantryWork(work: WorkDocument | undefined): Promise<unknown> {
  // Without the key a payload reads as undefined.
  if (work === undefined) throw ApplicationFailure.nonRetryable('The work was not sealed with a key of this worker.')
  const journal: JournalEntry[] = []
  const arrived: JournalEntry[] = []
  const running = new Map<string, Promise<void>>()
  const approvals = createApprovals()
  const startedMs = workflowInfo().startTime.getTime()
  let [sent, requests]: [number, number] = [0, 0]
  let stop: AdvanceInput['stop']
  // Local, so that it costs no turn of the server, and its input is in no history.
  const advance = proxyLocalActivities<UntypedActivities>({
    startToCloseTimeout: '1 hour',
    retry: { initialInterval: 200, maximumInterval: 10_000 },
  })[advanceActivity]

  const arrive = (request: WorkRequest, outcome: JournalEntry['outcome']): void => {
    running.delete(request.key)
    arrived.push({ key: request.key, fingerprint: request.fingerprint, outcome, atMs: Date.now() })
  }
  const perform = async (request: WorkRequest): Promise<void> => {
    try {
      if (request.kind === 'sleep') {
        await sleep(Math.max(1, request.ms))
        arrive(request, { kind: 'value', value: null })
      } else arrive(request, await callOf(work, request, approvals))
    } catch (error) {
      // Cancelled: a sleep or an approval that is waited for has no outcome.
      running.delete(request.key)
      if (!isCancellation(error)) throw error
    }
  }
  const takeArrived = (): void => {
    for (const entry of arrived.splice(0)) {
      // The clock of a program does not go back, and the workers' clocks are not this one.
      journal.push({ ...entry, atMs: Math.max(entry.atMs, journal.at(-1)?.atMs ?? 0) })
    }
  }
  const ask = async (from: number): Promise<AdvanceAnswer> => {
    const input: AdvanceInput = {
      ...(from === 0 ? { start: { work, startedMs } } : {}),
      from,
      entries: journal.slice(from),
      running: [...running.keys()],
      ...(stop === undefined ? {} : { stop }),
    }
    const answer: AdvanceAnswer | undefined = await advance?.(input)
    if (answer === undefined)
      throw ApplicationFailure.nonRetryable('The work was not advanced by a worker with the key.')
    return answer
  }
  const next = async (): Promise<AdvanceAnswer> => {
    const answer = await ask(sent)
    // Another worker has the workflow now.
    const whole = answer.kind === 'missing' ? await ask(0) : answer
    sent = journal.length
    return whole
  }
  const run = async (): Promise<unknown> => {
    for (;;) {
      const answer = await next()
      if (answer.kind === 'end') return answer.end
      if (answer.kind === 'missing') throw ApplicationFailure.nonRetryable('The worker does not keep the journal.')
      journal.push(...answer.made)
      requests += answer.requests.length
      if (requests > mostRequests)
        throw ApplicationFailure.nonRetryable(
          `The work makes more than ${mostRequests} requests, which is the most in one history.`,
        )
      for (const request of answer.requests) running.set(request.key, perform(request))
      await condition(() => arrived.length > 0)
      takeArrived()
    }
  }
  const scope = new CancellationScope()
  const { timeoutMs } = work
  try {
    return await scope.run(async () => {
      if (timeoutMs !== undefined)
        void sleep(timeoutMs).then(
          () => {
            stop = 'timeout'
            scope.cancel()
          },
          () => undefined,
        )
      const end = await run()
      // Sleeps that nothing waits for any more end with the work.
      scope.cancel()
      return end
    })
  } catch (error) {
    if (!isCancellation(error)) throw error
    stop ??= 'cancelled'
    return await CancellationScope.nonCancellable(async () => {
      await Promise.all(running.values())
      takeArrived()
      const answer = await next()
      return answer.kind === 'end' ? answer.end : { failed: stop }
    })
  }
}

interface Approvals {
  /** Waits for the decision on a call; one that does not come in time is a refusal. */
  decided(asked: AskedApproval): Promise<ApprovalDecision>
}

function createApprovals(): Approvals {
  const waiting = new Map<string, AskedApproval>()
  const decisions = new Map<string, ApprovalDecision>()
  setHandler(defineQuery<AskedApproval[]>(approvalsQuery), () => [...waiting.values()])
  setHandler(defineSignal<[unknown]>(decideSignal), (given) => {
    const decision = readDecision(given)
    if (decision === undefined || !waiting.has(decision.approvalId) || decisions.has(decision.approvalId)) return
    decisions.set(decision.approvalId, decision)
  })
  return {
    async decided(asked) {
      const { approvalId, expiresMs } = asked
      waiting.set(approvalId, asked)
      try {
        await condition(() => decisions.has(approvalId), Math.max(1, expiresMs - Date.now()))
        return (
          decisions.get(approvalId) ?? { approvalId, approved: false, by: 'none', reason: 'No decision came in time.' }
        )
      } finally {
        waiting.delete(approvalId)
      }
    },
  }
}

/** A signal without the key reads as undefined. */
function readDecision(given: unknown): ApprovalDecision | undefined {
  if (typeof given !== 'object' || given === null) return undefined
  const { approvalId, approved, by, reason } = given as Partial<ApprovalDecision>
  if (typeof approvalId !== 'string' || typeof approved !== 'boolean' || typeof by !== 'string') return undefined
  return { approvalId, approved, by, ...(typeof reason === 'string' ? { reason } : {}) }
}

/** Makes a call, again after each decision that it asks for. */
async function callOf(
  work: WorkDocument,
  request: CallRequest,
  approvals: Approvals,
): Promise<JournalEntry['outcome']> {
  let decision: ApprovalDecision | undefined
  for (;;) {
    const answer = await attempt(work, request, decision)
    if (answer === undefined) return { kind: 'error', error: lostError(request.tool) }
    if (answer.kind === 'result') return { kind: 'result', result: answer.result }
    decision = await approvals.decided(answer.approval)
  }
}

async function attempt(
  { id, identity, heartbeatMs }: WorkDocument,
  request: CallRequest,
  decision: ApprovalDecision | undefined,
): Promise<CallAnswer | undefined> {
  const options: ActivityOptions = {
    startToCloseTimeout: request.runMs,
    heartbeatTimeout: heartbeatMs,
    cancellationType: 'WAIT_CANCELLATION_COMPLETED',
    summary: request.key,
    // An effect that may happen once only is not tried again: the worker may have been lost after it.
    retry: {
      maximumAttempts: request.effect === 'once' ? 1 : retriedAttempts,
      initialInterval: 200,
      maximumInterval: 10_000,
    },
  }
  const input: CallInput = { id, identity, heartbeatMs, request, ...(decision === undefined ? {} : { decision }) }
  try {
    const answer: CallAnswer | undefined = await proxyActivities<UntypedActivities>(options)[request.tool]?.(input)
    // The answer to another call would be one that was recorded before and is played again.
    return answer?.of === `${id}/${request.key}` ? answer : undefined
  } catch (error) {
    if (isCancellation(error)) throw error
    return undefined
  }
}
