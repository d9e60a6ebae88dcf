import type { Deterministic } from '../channel/messages.ts'

/** Time as a module sees it, in nanoseconds. */
export interface ModuleClock {
  /** By the number of a clock; undefined when there is no such one. */
  read(id: number): bigint | undefined
  wait(ns: bigint): void
}

const [realtime, monotonic, processTime, threadTime] = [0, 1, 2, 3]
const nsPerMs = 1_000_000
const longestMs = 2_147_483_647

/** A clock that stands goes on only by what the module itself waits, so that waiting comes to an end. */
export function createModuleClock(deterministic: Deterministic | undefined): ModuleClock {
  const cell = new Int32Array(new SharedArrayBuffer(4))
  let waited = 0n
  const now = (): bigint => process.hrtime.bigint()
  const cpu = (): bigint => {
    const { user, system } = process.threadCpuUsage()
    return BigInt(user + system) * 1_000n
  }
  return {
    read(id) {
      if (id === realtime) return BigInt(Math.round((deterministic?.nowMs ?? Date.now()) * nsPerMs))
      if (id === monotonic) return deterministic === undefined ? now() : waited
      if (id === processTime || id === threadTime) return deterministic === undefined ? cpu() : 0n
      return undefined
    },
    wait(ns) {
      waited += ns
      Atomics.wait(cell, 0, 0, Math.min(Number(ns) / nsPerMs, longestMs))
    },
  }
}
