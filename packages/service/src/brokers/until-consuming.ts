import { setTimeout as sleep } from 'node:timers/promises'
import type { BrokerDoor } from './open-brokers.ts'

const lookEveryMs = 500

/** Waits until every broker has told how much waits in it: then its messages can be taken. */
export async function untilConsuming(doors: readonly BrokerDoor[], signal: AbortSignal): Promise<void> {
  await Promise.all(doors.map((door) => untilAnswers(door, signal)))
}

async function untilAnswers({ transport }: BrokerDoor, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    try {
      await transport.lag?.()
      return
    } catch {
      await sleep(lookEveryMs, undefined, { signal }).catch(() => undefined)
    }
  }
}
