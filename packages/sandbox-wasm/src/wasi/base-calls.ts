import type { Deterministic } from '../channel/messages.ts'
import { type Calls, errno, ModuleEnd, type ModuleProgram, WasiError } from './program.ts'

/** Arguments, environment, clocks, randomness, waiting and the end. */
export function baseCalls({ memory, clock, argv, env, random }: ModuleProgram): Calls {
  const sizes = (texts: readonly string[]) => (count: number, bytes: number) => {
    memory.setU32(count, texts.length)
    memory.setU32(
      bytes,
      texts.reduce((sum, text) => sum + Buffer.byteLength(text) + 1, 0),
    )
  }
  const put = (texts: readonly string[]) => (list: number, room: number) => {
    let at = room
    for (const [index, text] of texts.entries()) {
      const bytes = Buffer.from(`${text}\0`)
      memory.setU32(list + index * 4, at)
      memory.bytes(at, bytes.length).set(bytes)
      at += bytes.length
    }
  }
  const time = (id: number): bigint => {
    const now = clock.read(id)
    if (now === undefined) throw new WasiError(errno.inval)
    return now
  }
  return {
    args_sizes_get: sizes(argv),
    args_get: put(argv),
    environ_sizes_get: sizes(env),
    environ_get: put(env),
    clock_res_get(id: number, result: number) {
      time(id)
      memory.setU64(result, 1_000)
    },
    clock_time_get: (id: number, _precision: bigint, result: number) => memory.setU64(result, time(id)),
    random_get: (at: number, length: number) => random(memory.bytes(at, length)),
    sched_yield: () => undefined,
    proc_exit(code: number) {
      throw new ModuleEnd(code & 0xff)
    },
    poll_oneoff: (input: number, output: number, count: number, result: number) =>
      poll({ memory, clock }, { input, output, count, result }),
  }
}

const mostSubscriptions = 1_024
const [subscriptionBytes, eventBytes] = [48, 32]
const clockEvent = 0
const absoluteTime = 1

/** Files are always ready; without one the shortest of the waits is waited for. */
function poll(
  { memory, clock }: Pick<ModuleProgram, 'memory' | 'clock'>,
  at: { readonly input: number; readonly output: number; readonly count: number; readonly result: number },
): number | undefined {
  if (at.count === 0 || at.count >>> 0 > mostSubscriptions) return errno.inval
  const all = Array.from({ length: at.count }, (_, index) => {
    const start = at.input + index * subscriptionBytes
    const type = memory.u8(start + 8)
    return { userdata: memory.u64(start), type, wait: type === clockEvent ? waitOf(start) : 0n }
  })
  const least = all.reduce((first, { wait }) => (wait < first ? wait : first), all[0]?.wait ?? 0n)
  if (least > 0n) clock.wait(least)
  const ready = all.filter(({ wait }) => wait <= least)
  for (const [index, { userdata, type }] of ready.entries()) {
    const event = at.output + index * eventBytes
    memory.bytes(event, eventBytes).fill(0)
    memory.setU64(event, userdata)
    memory.setU8(event + 10, type)
  }
  memory.setU32(at.result, ready.length)
  return undefined

  function waitOf(start: number): bigint {
    const now = clock.read(memory.u32(start + 16))
    if (now === undefined) throw new WasiError(errno.inval)
    const timeout = memory.u64(start + 24)
    if ((memory.u16(start + 40) & absoluteTime) === 0) return timeout
    return timeout > now ? timeout - now : 0n
  }
}

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
