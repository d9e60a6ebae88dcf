import { Buffer } from 'node:buffer'
import { readFileSync, readSync, writeSync } from 'node:fs'
import { createRandom, type RandomFill } from '../guest/random.ts'
import { encodeFrame, headBytes } from './frames.ts'

/** The functions of Node that a host keeps in closures before it removes the others. */
export interface HostNode {
  send(kind: number, ...parts: readonly Uint8Array[]): void
  /** Waits for the next frame; exits when the starter has closed the channel. */
  receive(): { readonly kind: number; readonly payload: Buffer }
  /** Diagnostics for the starter; never a program's output. */
  complain(text: string): void
  cpuMs(): number
  sleep(ms: number): void
  exit(code: number): never
}

const [diagnostics, channel] = [2, 3]
const longestSleepMs = 2_147_483_647

export function takeNode(): HostNode {
  const exit = process.exit.bind(process) as (code: number) => never
  const cpuUsage = process.cpuUsage.bind(process)
  const { wait } = Atomics
  const cell = new Int32Array(new SharedArrayBuffer(4))
  const write = (descriptor: number, bytes: Uint8Array): void => {
    for (let done = 0; done < bytes.length; ) done += writeSync(descriptor, bytes, done)
  }
  const read = (length: number): Buffer => {
    const room = Buffer.allocUnsafe(length)
    for (let done = 0; done < length; ) {
      const got = readSync(channel, room, done, length - done, null)
      if (got === 0) exit(0)
      done += got
    }
    return room
  }
  return {
    exit,
    send: (kind, ...parts) => write(channel, encodeFrame(kind, ...parts)),
    receive() {
      const head = read(headBytes)
      return { kind: head.readUInt8(0), payload: read(head.readUInt32LE(1)) }
    },
    complain: (text) => write(diagnostics, Buffer.from(`${text}\n`)),
    cpuMs() {
      const { user, system } = cpuUsage()
      return (user + system) / 1_000
    },
    sleep: (ms) => void wait(cell, 0, 0, Math.min(ms, longestSleepMs)),
  }
}

/** Globals that are kept: the language itself, and what Pyodide needs to start. */
const kept = new Set([
  'Object',
  'Function',
  'Array',
  'Number',
  'parseFloat',
  'parseInt',
  'Infinity',
  'NaN',
  'undefined',
  'Boolean',
  'String',
  'Symbol',
  'Date',
  'Promise',
  'RegExp',
  'Error',
  'AggregateError',
  'EvalError',
  'RangeError',
  'JSON',
  'ReferenceError',
  'SyntaxError',
  'TypeError',
  'URIError',
  'globalThis',
  'Math',
  'Intl',
  'ArrayBuffer',
  'Atomics',
  'SharedArrayBuffer',
  'Uint8Array',
  'Int8Array',
  'Uint16Array',
  'Int16Array',
  'Uint32Array',
  'Int32Array',
  'BigUint64Array',
  'BigInt64Array',
  'Uint8ClampedArray',
  'Float16Array',
  'Float32Array',
  'Float64Array',
  'DataView',
  'Map',
  'BigInt',
  'Set',
  'Iterator',
  'WeakMap',
  'WeakSet',
  'WeakRef',
  'FinalizationRegistry',
  'Proxy',
  'Reflect',
  'decodeURI',
  'decodeURIComponent',
  'encodeURI',
  'encodeURIComponent',
  'escape',
  'unescape',
  'isFinite',
  'isNaN',
  'SuppressedError',
  'DisposableStack',
  'AsyncDisposableStack',
  'WebAssembly',
  'TextEncoder',
  'TextDecoder',
  'performance',
  'setTimeout',
  'clearTimeout',
  'AbortSignal',
  'AbortController',
  'MessageChannel',
])

/** The parts of the environment of Pyodide that can still be changed. */
export interface Shell {
  /** Sets the source of random bytes and the clock. */
  show(random: RandomFill, nowMs: (() => number) | undefined): void
}

/**
 * Reduces the globals to those of a bare JavaScript shell, which Pyodide supports. It then never loads Node's modules, so
 * a program can reach nothing that leads to files, processes or a network.
 */
export function becomeShell(folder: string, complain: (text: string) => void): Shell {
  const date = Date.now
  let random = createRandom(undefined)
  for (const name of Object.getOwnPropertyNames(globalThis)) {
    if (!kept.has(name)) Reflect.deleteProperty(globalThis, name)
  }
  const say = (...words: unknown[]): void => complain(words.map(String).join(' '))
  Object.assign(globalThis, {
    console: { log: say, info: say, warn: say, error: say, debug: say },
    // Pyodide detects a shell by these three, and reads its own files through them.
    read: () => '',
    load: () => undefined,
    readbuffer(path: string): Uint8Array {
      if (!path.startsWith(folder)) throw new Error('This is no file of Pyodide.')
      return readFileSync(path)
    },
    // In a shell Pyodide runs a command for random bytes, and so gets them here; the last word is their number.
    os: { system: (_program: string, words: readonly string[]) => randomBase64(random, words) },
  })
  // Code that can set this sees host functions in the stack of any error.
  Object.defineProperty(Error, 'prepareStackTrace', { value: undefined, writable: false, configurable: false })
  return {
    show(fill, nowMs) {
      random = fill
      Date.now = nowMs ?? date
    },
  }
}

/**
 * After its start Pyodide reads no file, compiles no module and starts no timer. The built-ins are frozen then: the host
 * uses them too, and a program that reaches JavaScript must not change what the host sends.
 */
export function closeShell(): void {
  for (const name of startingOnly) Reflect.deleteProperty(globalThis, name)
  const iterators = [[].values(), new Map().values(), new Set().values(), ''[Symbol.iterator](), ''.matchAll(/-/g)]
  const named = Object.getOwnPropertyNames(globalThis).filter((name) => !/^(?:Date|.*Error|globalThis)$/.test(name))
  const shared = [Buffer, Object.getPrototypeOf(Uint8Array), ...named.map((name) => Reflect.get(globalThis, name))]
  for (const it of shared) {
    Object.freeze(it)
    if (typeof it === 'function') Object.freeze(it.prototype)
  }
  for (const iterator of iterators) Object.freeze(Object.getPrototypeOf(iterator))
  Object.freeze(globalThis)
}

const startingOnly = [
  'read',
  'load',
  'readbuffer',
  'WebAssembly',
  'MessageChannel',
  'AbortSignal',
  'AbortController',
  'setTimeout',
  'clearTimeout',
  'SharedArrayBuffer',
  'Atomics',
]

function randomBase64(random: RandomFill, words: readonly string[]): string {
  const bytes = Buffer.alloc(Number(/-c(\d+)/.exec(words.join(' '))?.[1] ?? 0))
  random(bytes)
  return bytes.toString('base64')
}
