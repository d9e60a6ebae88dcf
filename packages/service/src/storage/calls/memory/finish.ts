import type { Ending } from '../call-store.ts'
import { freesKey } from '../plain-call.ts'
import { auditOf, fillSlots, type Live, type Memory, mayHaveRun, noteAttempt } from './state.ts'
import { keyOf } from './submit.ts'

/** Ends calls whose fence is the present one, held or not. */
export function finish(memory: Memory, endings: readonly Ending[]): readonly string[] {
  return end(memory, endings, ({ worker, fence }, ending) => {
    if (ending.fence !== fence) return undefined
    return { fence, worker }
  })
}

/** Ends calls that nobody ran, under a fence that nobody else has, so that nobody takes the outcome for his own. */
export function endUnrun(memory: Memory, endings: readonly Ending[]): readonly string[] {
  return end(memory, endings, (live, ending) => {
    if (live.fence !== ending.fence || live.leaseUntil !== undefined || mayHaveRun(live)) return undefined
    return { fence: live.fence + 1, worker: undefined }
  })
}

interface Ender {
  readonly fence: number
  readonly worker: string | undefined
}

function end(
  memory: Memory,
  endings: readonly Ending[],
  enderOf: (live: Live, ending: Ending) => Ender | undefined,
): readonly string[] {
  const accepted: string[] = []
  const keys: (string | undefined)[] = []
  for (const ending of endings) {
    const live = memory.live.get(ending.callId)
    const ender = live === undefined ? undefined : enderOf(live, ending)
    if (live === undefined || ender === undefined) continue
    memory.live.delete(ending.callId)
    if (freesKey(ending) && live.call.reply === undefined) memory.keys.delete(keyOf(live.call))
    if (ender.worker !== undefined) noteAttempt(memory, live, ending.result.status)
    record(memory, live, ending, ender)
    accepted.push(ending.callId)
    keys.push(live.call.slot?.key)
  }
  fillSlots(memory, keys)
  return accepted
}

function record({ records }: Memory, live: Live, ending: Ending, { fence, worker }: Ender): void {
  const { callId, result, text, ref, bytes, dead, config } = ending
  const { call, deliveries } = live
  const { tenant } = call.identity
  const how = { status: result.status, ...(result.error === undefined ? {} : { code: result.error.code }) }
  const where = { ...(text === undefined ? {} : { text }), ...(ref === undefined ? {} : { ref }) }
  records.results.push({ callId, fence, ...how, ...where, bytes })
  const { worker: _, ...line } = auditOf(live, 'end', { fence, ...how, ...(config === undefined ? {} : { config }) })
  records.audit.push(worker === undefined ? line : { ...line, worker })
  if (call.callback !== undefined) records.outbox.push({ callId, tenant, kind: 'callback', target: call.callback })
  if (call.reply !== undefined) records.outbox.push({ callId, tenant, kind: 'reply', target: call.reply.to })
  if (dead === undefined) return
  const { reason } = dead
  const code = result.error?.code ?? 'INTERNAL'
  records.deadLetters.push({ id: callId, tenant, callId, source: 'call', reason, code, tool: call.tool, deliveries })
}
