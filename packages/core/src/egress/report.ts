import type { EgressEvent } from './egress.ts'
import type { Target } from './target.ts'

/** Tells of one attempt. */
export type Report = (
  owner: string,
  target: Pick<Target, 'host' | 'port'> & { readonly scheme: string },
  end: Pick<EgressEvent, 'outcome' | 'address' | 'reason'>,
) => void

/** A report that a failing subscriber cannot disturb. */
export function createReport(onEvent: ((event: EgressEvent) => void) | undefined): Report {
  return (owner, { scheme, host, port }, end) => {
    try {
      onEvent?.({ owner, scheme, host, port, ...end })
    } catch {
      // Whoever listens must not decide whether a connection comes about.
    }
  }
}
