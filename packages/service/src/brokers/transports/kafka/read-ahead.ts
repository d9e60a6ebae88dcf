import { isOpen, sizeOf, type Taken } from './partition.ts'

/** Messages that were read and wait for somebody to ask for them, in the order in which they came. */
export interface ReadAhead {
  /** False when there is enough for now. */
  readonly room: boolean
  put(taken: readonly Taken[]): void
  take(max: number): Taken[]
  /** Removes what was taken away from us. */
  dropLost(): void
}

/** The answer of a broker that passes a limit is taken whole: one fetch more, at most 4 MB. */
const most = 1_000
const mostBytes = 12 * 1024 * 1024

export function createReadAhead(): ReadAhead {
  let ready: Taken[] = []
  let bytes = 0
  return {
    get room() {
      return ready.length < most && bytes < mostBytes
    },
    put(taken) {
      for (const one of taken) {
        ready.push(one)
        bytes += sizeOf(one)
      }
    },
    take(max) {
      const taken = ready.splice(0, max)
      for (const one of taken) bytes -= sizeOf(one)
      return taken
    },
    dropLost() {
      ready = ready.filter(isOpen)
      bytes = ready.reduce((sum, one) => sum + sizeOf(one), 0)
    },
  }
}
