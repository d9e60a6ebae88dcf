import { Buffer } from 'node:buffer'
import { readFileSync, readSync, writeSync } from 'node:fs'
import { createRandom, type RandomFill } from '../guest/random.ts'
import { encodeFrame, headBytes } from './frames.ts'

/** What a host keeps of Node, in closures, before it gives up the rest. */
export interface HostNode {
  send(kind: number, ...parts: readonly Uint8Array[]): void
  /** Waits for the next frame; exits when the starter is gone. */
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

/** What of the globals stays: the language itself, and what Pyodide needs to start. */
const kept = new Set([
  ...['Object', 'Function', 'Array', 'Number', 'parseFloat', 'parseInt', 'Infinity', 'NaN', 'undefined', 'Boolean'],
  ...['String', 'Symbol', 'Date', 'Promise', 'RegExp', 'Error', 'AggregateError', 'EvalError', 'RangeError', 'JSON'],
  ...['ReferenceError', 'SyntaxError', 'TypeError', 'URIError', 'globalThis', 'Math', 'Intl', 'ArrayBuffer', 'Atomics'],
  ...['SharedArrayBuffer', 'Uint8Array', 'Int8Array', 'Uint16Array', 'Int16Array', 'Uint32Array', 'Int32Array'],
  ...['BigUint64Array', 'BigInt64Array', 'Uint8ClampedArray', 'Float16Array', 'Float32Array', 'Float64Array'],
  ...['DataView', 'Map', 'BigInt', 'Set', 'Iterator', 'WeakMap', 'WeakSet', 'WeakRef', 'FinalizationRegistry', 'Proxy'],
  ...['Reflect', 'decodeURI', 'decodeURIComponent', 'encodeURI', 'encodeURIComponent', 'escape', 'unescape'],
  ...['isFinite', 'isNaN', 'SuppressedError', 'DisposableStack', 'AsyncDisposableStack', 'WebAssembly', 'TextEncoder'],
  ...['TextDecoder', 'performance', 'setTimeout', 'clearTimeout', 'AbortSignal', 'AbortController', 'MessageChannel'],
])

/** What can still be changed of the world that Pyodide sees. */
export interface Shell {
  /** Where random bytes come from, and what time it is. */
  show(random: RandomFill, nowMs: (() => number) | undefined): void
}

/**
 * Makes the globals those of a bare JavaScript shell, for which Pyodide is made too. It then never asks for Node's modules,
 * so there is nothing in reach of a program that leads to files, processes or a network.
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
    // These three are how Pyodide knows a shell, and how it reads its own files in one.
    read: () => '',
    load: () => undefined,
    readbuffer(path: string): Uint8Array {
      if (!path.startsWith(folder)) throw new Error('This is no file of Pyodide.')
      return readFileSync(path)
    },
    // In a shell it takes random bytes from a command, and so from here; the last word says how many.
    os: { system: (_program: string, words: readonly string[]) => randomBase64(random, words) },
  })
  // Code that can set this sees functions of the host in the stack of any error.
  Object.defineProperty(Error, 'prepareStackTrace', { value: undefined, writable: false, configurable: false })
  return {
    show(fill, nowMs) {
      random = fill
      Date.now = nowMs ?? date
    },
  }
}

/**
 * Once Pyodide is there, it reads no file, compiles no module and starts no timer any more. The language is frozen then: the
 * host speaks it too, and a program that got hold of some of it must not change what the host says.
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
  ...['read', 'load', 'readbuffer', 'WebAssembly', 'MessageChannel', 'AbortSignal', 'AbortController', 'setTimeout'],
  ...['clearTimeout', 'SharedArrayBuffer', 'Atomics'],
]

function randomBase64(random: RandomFill, words: readonly string[]): string {
  const bytes = Buffer.alloc(Number(/-c(\d+)/.exec(words.join(' '))?.[1] ?? 0))
  random(bytes)
  return bytes.toString('base64')
}
