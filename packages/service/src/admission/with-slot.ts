import type { Executor } from '@gantry/core'
import type { Snapshots } from '../config/snapshots.ts'
import type { AdmittedCall } from '../storage/calls/call-store.ts'

/** Gives a call that is redriven the concurrency limit that its tool has today. */
export function slotsOfToday(snapshots: Pick<Snapshots, 'current'>): (call: AdmittedCall) => AdmittedCall {
  return (call) => withSlot(call, snapshots.current.executor)
}

function withSlot(call: AdmittedCall, { catalog }: Pick<Executor, 'catalog'>): AdmittedCall {
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
