import type { Report } from '@gantry/contract'
import type { Claim } from '../../storage/calls/call-store.ts'
import type { CallReports, EventWriter, Unstored } from './event-writer.ts'

/** Most calls report nothing, and cost nothing here. What one reports before the store has it waits for that. */
export function lazyReports(
  { callId, fence, entering }: Pick<Claim, 'callId' | 'fence' | 'entering'>,
  writer: Pick<EventWriter, 'open'>,
): CallReports {
  let opened: CallReports | undefined
  let entered = entering === undefined
  const write = (report: Report): void | Promise<void> => {
    entered = true
    opened ??= writer.open({ callId, fence })
    return opened.report(report)
  }
  let waiting: Promise<void> | undefined
  return {
    report(report: Report): void | Promise<void> {
      if (entered) return write(report)
      waiting = entering?.then(
        () => write(report),
        () => undefined,
      )
      return waiting
    },
    async end(): Promise<Unstored> {
      await waiting
      return (await opened?.end()) ?? { events: [], lost: 0 }
    },
  }
}
