import type { QuickJSContext, QuickJSHandle } from 'quickjs-emscripten-core'
import type { Engine } from './engine.ts'

/** Host calls into a guest for quiescence and responses of a program with a gateway. Only text crosses. */
export interface GatewayCalls {
  /** Runs up to a number of promise jobs; false when the interpreter failed. */
  work(jobs: number): boolean
  readonly pending: boolean
  /** The program's state and its new requests; undefined when it cannot report them. */
  rest(): string | undefined
  /** Delivers a response; false when the guest failed to accept it. */
  deliver(number: number, ok: boolean, text: string): boolean
}

/** Created before the memory image is taken, so that its buffer and functions exist for every program. */
export function createGatewayCalls(engine: Engine, context: QuickJSContext, prelude: QuickJSHandle): GatewayCalls {
  const raw = createRaw(engine, context)
  const rest = raw.pointer(context.getProp(prelude, 'rest'))
  const deliver = raw.pointer(context.getProp(prelude, 'deliver'))
  return {
    work: raw.work,
    get pending() {
      return raw.pending
    },
    rest: () => raw.take(rest),
    deliver: (number, ok, text) => raw.give(deliver, ok ? number : -number, text),
  }
}

/**
 * Calls the interpreter without the library's handles, whose overhead exceeds the work: text in, jobs run, text out. For
 * operations that a program does thousands of times.
 */
interface Raw {
  /** Calls a function with a number and a text and discards its result; false when it threw. */
  give(work: number, number: number, text: string): boolean
  /** Calls a function without arguments and returns its text; undefined when it threw or returned none. */
  take(work: number): string | undefined
  /** Whether a promise job is pending. */
  readonly pending: boolean
  /** Runs up to a number of promise jobs; false when one failed. */
  work(jobs: number): boolean
  /** The pointer of a function for `give` and `take`; it must live as long as the context. */
  pointer(work: QuickJSHandle): number
}

/** The library's internals behind its handles; `getFFI` is public, the allocator is a private member. */
interface Below extends Interpreter {
  readonly malloc: (bytes: number) => number
  readonly free: (at: number) => void
}

interface Allocator {
  readonly _malloc: (bytes: number) => number
  readonly _free: (at: number) => void
}

interface Interpreter {
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

/** Size of a text buffer that is kept with the context, so that most texts need no allocation. */
const roomBytes = 16_384

function createRaw({ quickjs, memory }: Engine, context: QuickJSContext): Raw {
  const below = belowOf(quickjs)
  const ctx = pointerIn(context, 'ctx', 'value')
  const runtime = pointerIn(context.runtime, 'rt', 'value')
  const self = pointerOf(context.undefined)
  const room = below.malloc(roomBytes)
  const values = below.malloc(8)

  /** A memory that grows gets a new buffer, and the old one becomes empty. */
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
    const at = below.malloc(most + 1)
    if (at === 0) return 0
    const end = at + view().write(text, at, most, 'utf8')
    view()[end] = 0
    const value = below.QTS_NewString(ctx, at)
    below.free(at)
    return value
  }
  const newText = (text: string): number => {
    // UTF-8 needs at most three bytes per UTF-16 unit, so most texts need not be measured.
    if (text.length * 3 >= roomBytes) return longText(text)
    view()
    // Written through its own view, because Node's checks of an offset and a length are slow.
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
  return pointerIn(handle, 'value')
}

function belowOf(quickjs: Engine['quickjs']): Below {
  const { module } = quickjs as unknown as { readonly module: Allocator }
  const { _malloc: malloc, _free: free } = module
  return { ...(quickjs.getFFI() as unknown as Interpreter), malloc, free }
}

/** A pointer that the library keeps in a private member. */
function pointerIn(holder: object, ...path: readonly string[]): number {
  let at: unknown = holder
  for (const name of path) at = typeof at === 'object' && at !== null ? Reflect.get(at, name) : undefined
  if (typeof at === 'number') return at
  throw new Error(`This version of quickjs-emscripten has no pointer at ${path.join('.')}.`)
}
