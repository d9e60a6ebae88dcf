import type { ToolError } from '@gantry/contract'
import type { Delivery, Transport } from './transports/transport.ts'

export interface ConsumerOptions {
  readonly transport: Transport
  /** How many deliveries there is room for now; asked before each `receive`. */
  readonly room: () => number
  /** Takes what was handed over; what it does with it is not waited for. */
  readonly take: (deliveries: readonly Delivery[]) => void
  /** Told when the transport fails and when it answers again. */
  readonly failed: (error: ToolError) => void
  readonly answered: () => void
  /** Told when a look begins with nothing known to be left. */
  readonly idled?: () => void
  /** Waited for after what was taken, so that this is on its way before the next look costs time; absent, nothing is. */
  readonly turn?: () => Promise<unknown>
  readonly random: () => number
  readonly pause: (ms: number, signal: AbortSignal) => Promise<void>
}

export interface Consumer {
  /** Runs until the signal aborts; never rejects. */
  run(signal: AbortSignal): Promise<void>
  /** Says that there may be room again. */
  freed(): void
  /** Whether the last look found nothing left to take, so that a new call need not stand behind others. */
  readonly idle: boolean
}

const most = 500
const firstPauseMs = 100
const longestPauseMs = 5_000
/** How long the first look after a failure waits for a delivery: that it ends says that the transport answers again. */
const shortLookMs = 1_000

/**
 * Takes deliveries as long as there is room for them, in as few large steps as possible. While the transport fails it
 * waits, each time up to twice as long, so that many workers do not come back at the same moment.
 */
export function createConsumer(options: ConsumerOptions): Consumer {
  const { transport, room, take, failed, answered, idled, turn, random, pause } = options
  let idle = false
  let freed: (() => void) | undefined

  const untilRoom = (signal: AbortSignal): Promise<void> =>
    new Promise((resolve) => {
      const done = (): void => {
        signal.removeEventListener('abort', done)
        freed = undefined
        resolve()
      }
      signal.addEventListener('abort', done, { once: true })
      freed = done
      if (signal.aborted || room() > 0) done()
    })
  const step = async (signal: AbortSignal, failing: boolean): Promise<void> => {
    let asked = 0
    // Room that was there may be gone again; who asks for nothing would wait for nothing.
    while (asked === 0 && !signal.aborted) {
      await untilRoom(signal)
      asked = Math.min(most, room())
    }
    if (signal.aborted) return
    idle = true
    idled?.()
    const look = failing ? AbortSignal.any([signal, AbortSignal.timeout(shortLookMs)]) : signal
    const deliveries = await transport.receive(asked, look)
    idle = deliveries.length < asked
    if (deliveries.length === 0) return
    take(deliveries)
    await turn?.()
  }
  return {
    async run(signal) {
      let pauseMs = firstPauseMs
      while (!signal.aborted) {
        try {
          await step(signal, pauseMs > firstPauseMs)
          pauseMs = firstPauseMs
          answered()
        } catch (error) {
          idle = false
          failed(error as ToolError)
          await pause(pauseMs * (0.5 + random() / 2), signal)
          pauseMs = Math.min(longestPauseMs, pauseMs * 2)
        }
      }
    },
    freed() {
      if (room() > 0) freed?.()
    },
    get idle() {
      return idle
    },
  }
}
