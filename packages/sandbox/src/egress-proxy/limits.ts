import { ToolError } from '@gantry/contract'

/** What one sandbox may use of the network; every one is a ceiling. */
export interface EgressProxyLimits {
  /** Connections at once; 64. */
  readonly connections: number
  /** Bytes of one request's head; 16 KiB. */
  readonly headBytes: number
  /** Time until the head of a request is complete; 10 s. */
  readonly headMs: number
  /** Time in which nothing moves on a connection, in neither direction; 60 s. */
  readonly idleMs: number
  /** Bytes to the sandbox on one connection, without heads; 64 MiB, or what egress allows of one body. */
  readonly downBytes: number
  /** Bytes from the sandbox on one connection; 16 MiB. */
  readonly upBytes: number
  /** Bytes of all connections in both directions; 256 MiB. */
  readonly totalBytes: number
}

export const usualLimits: EgressProxyLimits = {
  connections: 64,
  headBytes: 16_384,
  headMs: 10_000,
  idleMs: 60_000,
  downBytes: 67_108_864,
  upBytes: 16_777_216,
  totalBytes: 268_435_456,
}

/** Counts what goes over one connection; throws LIMIT_EXCEEDED before the bytes that are too many go on. */
export interface Meter {
  up(bytes: number): void
  down(bytes: number): void
}

/** What all connections of a sandbox share. */
export interface Budget {
  /** Why there is no room for one more connection, when nothing is left. */
  refusal(): ToolError | undefined
  meter(): Meter
}

export function createBudget({ upBytes, downBytes, totalBytes }: EgressProxyLimits): Budget {
  let left = totalBytes
  const spent = (): ToolError => overLimit(`The sandbox has used up its ${totalBytes} bytes of network.`)
  const counter = (most: number, words: string): ((bytes: number) => void) => {
    let bytes = 0
    return (more) => {
      bytes += more
      left -= more
      if (bytes > most) throw overLimit(`A connection may carry ${most} bytes ${words} the sandbox.`)
      if (left < 0) throw spent()
    }
  }
  return {
    refusal: () => (left > 0 ? undefined : spent()),
    meter: () => ({ up: counter(upBytes, 'from'), down: counter(downBytes, 'to') }),
  }
}

export function overLimit(message: string): ToolError {
  return new ToolError('LIMIT_EXCEEDED', message)
}

/** Passes pieces on while the meter lets them. */
export async function* counted(
  source: AsyncIterable<Uint8Array>,
  count: (bytes: number) => void,
): AsyncGenerator<Uint8Array, void, undefined> {
  for await (const piece of source) {
    count(piece.byteLength)
    yield piece
  }
}
