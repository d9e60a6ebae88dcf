import type { Executor } from '@gantry/core'
import type { AdmittedCall } from '../storage/calls/call-store.ts'

/** A call that is handed in again waits for the slots that its tool has today. */
export function withSlot(call: AdmittedCall, { catalog }: Pick<Executor, 'catalog'>): AdmittedCall {
  if (call.kind === 'chain') return call
  try {
    const { key, tool } = catalog.find(call.tool)
    if (tool.concurrency === undefined) return call
    return { ...call, slot: { key: tool.concurrencyKey ?? key, limit: tool.concurrency } }
  } catch {
    // A tool that is gone ends the call when it runs, with that reason.
    return call
  }
}
