import type { QuickJSContext, QuickJSHandle } from 'quickjs-emscripten-core'
import type { Engine } from './engine.ts'

/** The calls into a guest by which a program over tools rests and receives responses. Only text crosses. */
export interface GatewayCalls {
  /** Runs promise jobs, up to a number; false when the interpreter gave up. */
  work(jobs: number): boolean
  readonly pending: boolean
  /** Its state and what it has asked since the last time; undefined when it cannot even say that. */
  rest(): string | undefined
  /** Delivers a response; false when the guest could not take it. */
  tell(number: number, ok: boolean, text: string): boolean
}

/** Made before the image of the memory is taken, so that its room and its functions are there for every program. */
export function createGatewayCalls(engine: Engine, context: QuickJSContext, prelude: QuickJSHandle): GatewayCalls {
  const raw = createRaw(engine, context)
  const rest = raw.pointer(context.getProp(prelude, 'rest'))
  const tell = raw.pointer(context.getProp(prelude, 'tell'))
  return {
    work: raw.work,
    get pending() {
      return raw.pending
    },
    rest: () => raw.take(rest),
    tell: (number, ok, text) => raw.give(tell, ok ? number : -number, text),
  }
}

/**
 * The interpreter without the library's handles, which cost more than what they hold: a text in, jobs done, a text out. For
 * what a program does thousands of times.
 */
interface Raw {
  /** Calls a function with a number and a text and lets go of what it gives; false when it threw. */
  give(work: number, number: number, text: string): boolean
  /** Calls a function without arguments and takes the text that it gives; undefined when it threw or gave none. */
  take(work: number): string | undefined
  /** Whether a promise has something to do. */
  readonly pending: boolean
  /** Runs promise jobs, up to a number; false when one of them failed. */
  work(jobs: number): boolean
  /** What `give` and `take` know a function by; it must live as long as the context. */
  pointer(work: QuickJSHandle): number
}

/** What of the library stands behind its handles; `getFFI` is public, the rest is where it keeps its pointers. */
interface Below {
  readonly QTS_NewString: (context: number, text: number) => number
  readonly QTS_GetString: (context: number, value: number) => number
  readonly QTS_NewFloat64: (context: number, value: number) => number
  readonly QTS_FreeCString: (context: number, text: number) => void
  readonly QTS_FreeValuePointer: (context: number, value: number) => void
  readonly QTS_Call: (context: number, work: number, self: number, count: number, values: number) => number
  readonly QTS_ResolveException: (context: number, value: number) => number
  readonly QTS_IsJobPending: (runtime: number) => number
  readonly QTS_ExecutePendingJob: (runtime: number, most: number, contextOut: number) => number
  readonly QTS_GetFloat64: (context: number, value: number) => number
}

/** Room for a text that is kept with the context, so that most texts need none of their own. */
const roomBytes = 16_384

function createRaw({ quickjs, memory }: Engine, context: QuickJSContext): Raw {
  const below = quickjs.getFFI() as unknown as Below
  const { module } = quickjs as unknown as { module: { _malloc(bytes: number): number; _free(at: number): void } }
  const ctx = (context as unknown as { ctx: { value: number } }).ctx.value
  const runtime = (context.runtime as unknown as { rt: { value: number } }).rt.value
  const self = pointerOf(context.undefined)
  const room = module._malloc(roomBytes)
  const values = module._malloc(8)

  /** A memory that grows leaves its buffer for another, and the old one is empty then. */
  let bytes = Buffer.from(memory.buffer)
  let roomView = Buffer.from(memory.buffer, room, roomBytes)
  const view = (): Buffer => {
    if (bytes.length === 0) {
      bytes = Buffer.from(memory.buffer)
      roomView = Buffer.from(memory.buffer, room, roomBytes)
    }
    return bytes
  }
  const longText = (text: string): number => {
    const most = text.length * 3
    const at = module._malloc(most + 1)
    if (at === 0) return 0
    const end = at + view().write(text, at, most, 'utf8')
    view()[end] = 0
    const value = below.QTS_NewString(ctx, at)
    module._free(at)
    return value
  }
  const newText = (text: string): number => {
    // No UTF-8 is longer than three bytes for each unit, so that most texts need not be measured.
    if (text.length * 3 >= roomBytes) return longText(text)
    view()
    // Written to a buffer of its own, because Node looks long at whatever says where in one it is to write.
    const end = roomView.write(text)
    roomView[end] = 0
    return below.QTS_NewString(ctx, room)
  }
  const isError = (value: number): boolean => {
    const error = below.QTS_ResolveException(ctx, value)
    if (error !== 0) below.QTS_FreeValuePointer(ctx, error)
    return error !== 0
  }
  return {
    pointer: pointerOf,
    give(work, number, text) {
      const value = newText(text)
      if (value === 0) return false
      const first = below.QTS_NewFloat64(ctx, number)
      view().writeUInt32LE(first, values)
      view().writeUInt32LE(value, values + 4)
      const result = below.QTS_Call(ctx, work, self, 2, values)
      const failed = isError(result)
      for (const each of [result, first, value]) below.QTS_FreeValuePointer(ctx, each)
      return !failed
    },
    take(work) {
      const result = below.QTS_Call(ctx, work, self, 0, values)
      if (isError(result)) {
        below.QTS_FreeValuePointer(ctx, result)
        return undefined
      }
      const at = below.QTS_GetString(ctx, result)
      const buffer = view()
      const text = at === 0 ? undefined : buffer.toString('utf8', at, buffer.indexOf(0, at))
      if (at !== 0) below.QTS_FreeCString(ctx, at)
      below.QTS_FreeValuePointer(ctx, result)
      return text
    },
    get pending() {
      return below.QTS_IsJobPending(runtime) !== 0
    },
    work(jobs) {
      const done = below.QTS_ExecutePendingJob(runtime, jobs, values)
      const count = below.QTS_GetFloat64(ctx, done)
      below.QTS_FreeValuePointer(ctx, done)
      return !Number.isNaN(count)
    },
  }
}

function pointerOf(handle: QuickJSHandle): number {
  return handle.value as unknown as number
}
