import type { QuickJSContext, QuickJSHandle } from 'quickjs-emscripten-core'
import { type Engine, takeImage } from './engine.ts'
import { bodyHead } from './evaluate.ts'
import { filesModule, moduleSource } from './files.ts'
import { createGatewayCalls, type GatewayCalls } from './gateway-calls.ts'
import { prelude } from './prelude.ts'

/** What a program's functions reach in the host; every value that crosses is a number, a text or bytes. */
export interface GuestHost {
  write(descriptor: number, text: string): void
  exit(code: number): void
  timer(id: number, ms: number): void
  cancel(id: number): void
  /** Throws an error whose message is a code of the system. */
  file(call: string, path: string, ...values: readonly FileValue[]): Uint8Array | string | undefined
  stdin(): Uint8Array
  random(bytes: Uint8Array): void
  /** Whether the program is to be stopped. */
  interrupt(): boolean
}

export type FileValue = Uint8Array | string | number

/** A context with its prelude, ready for a program. */
export interface Guest {
  readonly engine: Engine
  readonly context: QuickJSContext
  /**
   * Puts every byte of its memory back to what it was before the first program, so that nothing of one is there for the
   * next; false when it grew and must be thrown away. Handles that were got since are void.
   */
  reset(): boolean
  /** Gives it what a program over tools finds besides; once is enough until it is reset. */
  open(): void
  readonly opened: boolean
  /** Sets the memory that it may use. */
  limit(bytes: number): void
  /** Allows it a little more. */
  allow(bytes: number): void
  /** Says how many characters stand before a program on its first line, so that places in errors are its own. */
  place(columns: number): void
  /** Sets what its functions reach. */
  reach(host: GuestHost | undefined): void
  /** Gateway requests and responses of a program over tools. */
  readonly gatewayCalls: GatewayCalls
  /** Calls a function of the prelude; gives back what it returned, or threw. */
  call(name: PreludeName, ...values: readonly QuickJSHandle[]): ReturnType<QuickJSContext['callFunction']>
}

type GatewayName = 'open' | 'watch' | 'fault' | 'end'
export type PreludeName = 'begin' | 'place' | 'fire' | 'describe' | 'finish' | 'exitCode' | GatewayName

/** QuickJS counts its own stack; the thread's is larger, so that a program meets an error of its own. */
const stackBytes = 786_432
const mostRandomBytes = 65_536

/** Makes a context with its prelude in a fresh instance. */
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
  // Programs that lose a function of the host must not take it from those that come after them.
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

/** The host as the prelude sees it. */
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
  // The library takes an empty one for a failure.
  if (context.getProp(handle, 'byteLength').consume((length) => context.getNumber(length)) === 0)
    return new Uint8Array(0)
  return context.getArrayBuffer(handle).consume((lifetime) => lifetime.value.slice())
}

function copyOf(value: Uint8Array): ArrayBuffer {
  return value.buffer.slice(value.byteOffset, value.byteOffset + value.byteLength) as ArrayBuffer
}
