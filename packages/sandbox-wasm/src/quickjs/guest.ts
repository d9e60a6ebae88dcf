import type { QuickJSContext, QuickJSHandle } from 'quickjs-emscripten-core'
import { type Engine, takeImage } from './engine.ts'
import { bodyHead } from './evaluate.ts'
import { filesModule, moduleSource } from './files.ts'
import { createGatewayCalls, type GatewayCalls } from './gateway-calls.ts'
import { prelude } from './prelude.ts'

/** The host functions of a program; every value that crosses is a number, a text or bytes. */
export interface GuestHost {
  write(descriptor: number, text: string): void
  exit(code: number): void
  timer(id: number, ms: number): void
  cancel(id: number): void
  /** Throws an error whose message is a system error code. */
  file(call: string, path: string, ...values: readonly FileValue[]): Uint8Array | string | undefined
  stdin(): Uint8Array
  random(bytes: Uint8Array): void
  /** Whether the program must be stopped. */
  interrupt(): boolean
}

export type FileValue = Uint8Array | string | number

/** A context with its prelude, ready for a program. */
export interface Guest {
  readonly engine: Engine
  readonly context: QuickJSContext
  /**
   * Restores its memory to the state before the first program, so that no program leaves state for the next; false when
   * the memory grew and the guest must be discarded. Handles created since are invalid.
   */
  reset(): boolean
  /** Adds the API of a program with a gateway; needed once until a reset. */
  open(): void
  readonly opened: boolean
  /** Sets the memory that it may use. */
  limit(bytes: number): void
  /** Raises the memory limit by a reserve. */
  allow(bytes: number): void
  /** Sets the number of characters before a program on its first line, so that error positions are the program's own. */
  place(columns: number): void
  /** Sets the host that its functions call. */
  reach(host: GuestHost | undefined): void
  /** Gateway requests and responses of a program. */
  readonly gatewayCalls: GatewayCalls
  /** Calls a function of the prelude; returns its result or what it threw. */
  call(name: PreludeName, ...values: readonly QuickJSHandle[]): ReturnType<QuickJSContext['callFunction']>
}

type GatewayName = 'open' | 'watch' | 'fault' | 'end'
export type PreludeName = 'begin' | 'place' | 'fire' | 'describe' | 'finish' | 'exitCode' | GatewayName

/** QuickJS limits its own stack; the thread's is larger, so that a program gets an ordinary error. */
const stackBytes = 786_432
const mostRandomBytes = 65_536

/** Creates a context with its prelude in a fresh instance. */
export function createGuest(engine: Engine): Guest {
  let current: GuestHost | undefined
  let memoryBytes = 0
  let opened = false
  const runtime = engine.quickjs.newRuntime()
  runtime.setMaxStackSize(stackBytes)
  const context = runtime.newContext()
  runtime.setModuleLoader((name) => moduleSource(name) ?? { error: new Error(`Cannot find module '${name}'`) })
  runtime.setInterruptHandler(() => current?.interrupt() ?? false)
  const functions = context.unwrapResult(context.evalCode(prelude, 'gantry:prelude'))
  const called = context.callFunction(
    functions,
    context.undefined,
    hostObject(context, () => current),
  )
  const made = context.unwrapResult(called)
  const call: Guest['call'] = (name, ...values) => {
    return context.getProp(made, name).consume((work) => context.callFunction(work, context.undefined, ...values))
  }
  // A program that drops a host function must not remove it for later programs.
  runtime.hostRefs.delete = () => undefined
  const gatewayCalls = createGatewayCalls(engine, context, made)
  const image = takeImage(engine.memory)
  return {
    engine,
    context,
    reset() {
      current = undefined
      opened = false
      return image.restore()
    },
    open() {
      if (!opened) call('open')
      opened = true
    },
    get opened() {
      return opened
    },
    limit(bytes) {
      memoryBytes = bytes
      engine.refused = false
      engine.limit(bytes)
    },
    allow: (bytes) => engine.limit(memoryBytes + bytes),
    place(columns) {
      if (columns !== bodyHead.length) call('place', context.newNumber(columns))
    },
    reach(host) {
      current = host
    },
    call,
    gatewayCalls,
  }
}

/** The host object for the prelude. */
function hostObject(context: QuickJSContext, current: () => GuestHost | undefined): QuickJSHandle {
  const object = context.newObject()
  const host = (): GuestHost => {
    const now = current()
    if (now === undefined) throw new Error('The program has ended.')
    return now
  }
  const text = (handle: QuickJSHandle | undefined): string => (handle === undefined ? '' : context.getString(handle))
  const number = (handle: QuickJSHandle | undefined): number => (handle === undefined ? 0 : context.getNumber(handle))
  const bytes = (value: Uint8Array): QuickJSHandle => context.newArrayBuffer(copyOf(value))
  const give = (name: string, work: (...handles: QuickJSHandle[]) => QuickJSHandle | undefined): void => {
    context.setProp(object, name, context.newFunction(name, work))
  }
  give('write', (descriptor, said) => void host().write(number(descriptor), text(said)))
  give('exit', (code) => {
    host().exit(number(code))
    throw new Error('The program exits.')
  })
  give('base64', (data) => context.newString(Buffer.from(bytesIn(context, data)).toString('base64')))
  give('timer', (id, ms) => void host().timer(number(id), number(ms)))
  give('cancel', (id) => void host().cancel(number(id)))
  give('stdin', () => bytes(host().stdin()))
  give('encode', (said) => bytes(Buffer.from(text(said))))
  give('decode', (data) => context.newString(Buffer.from(bytesIn(context, data)).toString()))
  give('random', (length) => {
    const room = new Uint8Array(Math.min(Math.max(0, number(length)), mostRandomBytes))
    host().random(room)
    return bytes(room)
  })
  give('file', (call, path, ...values) => {
    const result = host().file(text(call), text(path), ...values.map((value) => fileValue(context, value)))
    if (result === undefined) return undefined
    return typeof result === 'string' ? context.newString(result) : bytes(result)
  })
  give('files', () => context.unwrapResult(context.evalCode(filesModule, 'gantry:fs')))
  return object
}

function fileValue(context: QuickJSContext, handle: QuickJSHandle): FileValue {
  const kind = context.typeof(handle)
  if (kind === 'string') return context.getString(handle)
  return kind === 'number' ? context.getNumber(handle) : bytesIn(context, handle)
}

/** A copy of an ArrayBuffer of the guest. */
function bytesIn(context: QuickJSContext, handle: QuickJSHandle | undefined): Uint8Array {
  if (handle === undefined || context.typeof(handle) !== 'object')
    throw new TypeError('The data must be text or bytes.')
  // The library treats an empty buffer as a failure.
  if (context.getProp(handle, 'byteLength').consume((length) => context.getNumber(length)) === 0)
    return new Uint8Array(0)
  return context.getArrayBuffer(handle).consume((lifetime) => lifetime.value.slice())
}

function copyOf(value: Uint8Array): ArrayBuffer {
  return value.buffer.slice(value.byteOffset, value.byteOffset + value.byteLength) as ArrayBuffer
}
