import { bodyHead } from './evaluate.ts'
import { gatewayModule } from './gateway-module.ts'

/**
 * The globals of a program that are not part of the language, written in the guest's own JavaScript: `console`, timers, `process` (argv,
 * env, exit, exitCode, cwd, stdout, stderr), `stdin` as text, `require` and `import` of `fs` and `fs/promises`, `TextEncoder`,
 * `TextDecoder`, `structuredClone` and `crypto.getRandomValues` and `randomUUID`. A function of the host's functions, so that
 * a program never holds them directly; it returns the functions that the host calls.
 */
export const prelude = String.raw`(host) => {
  'use strict'
  const { stringify, parse } = JSON
  const piece = 65536
  const write = (fd, text) => {
    for (let at = 0; at < text.length; at += piece) host.write(fd, text.slice(at, at + piece))
  }

  const quote = (text) => "'" + text.replace(/[\n\r\t\\']/g, (c) => ({ '\n': '\\n', '\r': '\\r', '\t': '\\t' })[c] ?? '\\' + c) + "'"
  let columns = ${bodyHead.length}
  const placed = (stack) => stack
    .replace(/\bmain\.js:1:(\d+)/g, (_, column) => 'main.js:1:' + Math.max(1, column - columns))
    .replace(/^\s+at .*\(gantry:.*\n?/gm, '')
    .trimEnd()
  const errorText = (error) => {
    const head = String(error.name) + (error.message === '' ? '' : ': ' + error.message)
    const stack = placed(String(error.stack ?? ''))
    const cause = Object.hasOwn(error, 'cause') ? '\n  [cause]: ' + inspect(error.cause) : ''
    return head + (stack === '' ? '' : '\n' + stack) + cause
  }
  const wrap = (open, parts, close) => {
    if (parts.length === 0) return open + close
    const line = parts.join(', ')
    if (line.length <= 72 && !line.includes('\n')) return open + ' ' + line + ' ' + close
    return open + '\n  ' + parts.map((part) => part.replaceAll('\n', '\n  ')).join(',\n  ') + '\n' + close
  }
  const members = (value, seen, skip) => {
    const keys = Reflect.ownKeys(value).filter((key) => Object.getOwnPropertyDescriptor(value, key)?.enumerable && !skip?.(key))
    const shown = keys.slice(0, 100).map((key) => {
      const name = typeof key === 'symbol' ? '[' + String(key) + ']' : /^[A-Za-z_$][\w$]*$/.test(key) ? key : quote(key)
      const { get, set, value: member } = Object.getOwnPropertyDescriptor(value, key)
      return name + ': ' + (get ? (set ? '[Getter/Setter]' : '[Getter]') : set ? '[Setter]' : inspect(member, seen))
    })
    return keys.length > 100 ? [...shown, '... ' + (keys.length - 100) + ' more'] : shown
  }
  const list = (items, count, seen) => {
    const shown = [...items].slice(0, 100).map((item) => inspect(item, seen))
    return count > 100 ? [...shown, '... ' + (count - 100) + ' more items'] : shown
  }
  const inspect = (value, seen = []) => {
    if (typeof value === 'string') return quote(value)
    if (typeof value === 'bigint') return value + 'n'
    if (Object.is(value, -0)) return '-0'
    if (typeof value === 'symbol') return String(value)
    if (typeof value === 'function') return (/^class\b/.test(Function.prototype.toString.call(value)) ? '[class ' : '[Function: ') + (value.name || '(anonymous)') + ']'
    if (typeof value !== 'object' || value === null) return String(value)
    if (seen.includes(value)) return '[Circular]'
    const name = value.constructor?.name ?? ''
    if (seen.length > 3) return Array.isArray(value) ? '[Array]' : '[' + (name || 'Object') + ']'
    const inner = [...seen, value]
    if (value instanceof Error) return errorText(value)
    if (value instanceof Date) return Number.isNaN(value.getTime()) ? 'Invalid Date' : value.toISOString()
    if (value instanceof RegExp) return String(value)
    if (value instanceof Promise) return 'Promise {}'
    if (Array.isArray(value)) {
      const items = list(value, value.length, inner)
      return wrap('[', [...items, ...members(value, inner, (key) => typeof key === 'string' && /^\d+$/.test(key))], ']')
    }
    if (value instanceof Map) return wrap('Map(' + value.size + ') {', [...value].slice(0, 100).map(([key, item]) => inspect(key, inner) + ' => ' + inspect(item, inner)), '}')
    if (value instanceof Set) return wrap('Set(' + value.size + ') {', list(value, value.size, inner), '}')
    if (ArrayBuffer.isView(value) && value.length !== undefined) return wrap(name + '(' + value.length + ') [', list(value.slice(0, 101), value.length, inner), ']')
    if (value instanceof ArrayBuffer) return 'ArrayBuffer { byteLength: ' + value.byteLength + ' }'
    const prefix = name === 'Object' ? '' : name === '' ? '[Object: null prototype] ' : name + ' '
    return wrap(prefix + '{', members(value, inner), '}')
  }
  const format = (values) => {
    const [first, ...rest] = values
    if (typeof first !== 'string') return values.map((value) => (typeof value === 'string' ? value : inspect(value))).join(' ')
    const text = first.replace(/%[sdifjoO%]/g, (mark) => {
      if (mark === '%%') return '%'
      if (rest.length === 0) return mark
      const value = rest.shift()
      if (mark === '%d' || mark === '%f') return String(typeof value === 'symbol' ? NaN : Number(value))
      if (mark === '%i') return String(typeof value === 'symbol' ? NaN : Math.trunc(Number(value)))
      if (mark === '%j') return String(stringify(value))
      return mark === '%s' && typeof value !== 'object' ? String(value) : inspect(value)
    })
    return [text, ...rest.map((value) => (typeof value === 'string' ? value : inspect(value)))].join(' ')
  }
  const print = (fd) => (...values) => write(fd, format(values) + '\n')
  const [out, err] = [print(1), print(2)]
  const console = {
    log: out, info: out, debug: out, table: out, dir: (value) => out(inspect(value)), group: out, groupEnd() {},
    error: err, warn: err,
    trace: (...values) => err('Trace: ' + format(values)),
    assert: (held, ...values) => { if (!held) err('Assertion failed' + (values.length ? ': ' + format(values) : '')) },
  }

  const timers = new Map()
  let lastTimer = 0
  const start = (repeat) => (work, ms = 0, ...values) => {
    if (typeof work !== 'function') throw new TypeError('The callback must be a function')
    const delay = Number(ms) >= 1 && Number(ms) <= 2147483647 ? Number(ms) : 1
    const id = ++lastTimer
    host.timer(id, delay)
    timers.set(id, { work, values, delay: repeat ? delay : undefined })
    return id
  }
  const stop = (id) => { if (timers.delete(Number(id))) host.cancel(Number(id)) }

  const process = {
    argv: ['quickjs', 'main.js'], env: {}, platform: 'wasm', exitCode: undefined, pid: 1,
    cwd: () => '/work',
    exit: (code = process.exitCode ?? 0) => host.exit(Number(code) & 255),
    nextTick: (work, ...values) => queueMicrotask(() => work(...values)),
    hrtime: { bigint: () => BigInt(Math.round(performance.now() * 1e6)) },
    stdout: { write: (text) => (write(1, String(text)), true) },
    stderr: { write: (text) => (write(2, String(text)), true) },
  }

  const bytesOf = (data) => {
    if (typeof data === 'string') return host.encode(data)
    if (ArrayBuffer.isView(data)) return data.buffer.slice(data.byteOffset, data.byteOffset + data.byteLength)
    if (data instanceof ArrayBuffer) return data
    throw new TypeError('The data must be text or bytes, not ' + inspect(data))
  }
  class TextEncoder {
    get encoding() { return 'utf-8' }
    encode(text = '') { return new Uint8Array(host.encode(String(text))) }
  }
  class TextDecoder {
    get encoding() { return 'utf-8' }
    decode(data = new ArrayBuffer(0)) { return host.decode(bytesOf(data)) }
  }
  const crypto = {
    getRandomValues(view) {
      new Uint8Array(view.buffer, view.byteOffset, view.byteLength).set(new Uint8Array(host.random(view.byteLength)))
      return view
    },
    randomUUID() {
      const bytes = crypto.getRandomValues(new Uint8Array(16))
      bytes[6] = (bytes[6] & 15) | 64
      bytes[8] = (bytes[8] & 63) | 128
      const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('')
      return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-')
    },
  }
  // QuickJS takes the seed from the clock when a context is made, which is long before a program and the same for all.
  let seed = new Uint32Array(4)
  Math.random = function random() {
    const sum = (seed[0] + seed[1] + seed[3]) | 0
    seed[3] += 1
    seed[0] = seed[1] ^ (seed[1] >>> 9)
    seed[1] = seed[2] + (seed[2] << 3)
    seed[2] = ((seed[2] << 21) | (seed[2] >>> 11)) + sum
    return (sum >>> 0) / 4294967296
  }
  const copy = (value, seen = new Map()) => {
    if (typeof value === 'function' || typeof value === 'symbol') throw new TypeError(inspect(value) + ' could not be cloned')
    if (typeof value !== 'object' || value === null) return value
    if (seen.has(value)) return seen.get(value)
    if (value instanceof Date) return new Date(value)
    if (value instanceof RegExp) return new RegExp(value)
    if (value instanceof ArrayBuffer || (ArrayBuffer.isView(value) && value.length !== undefined)) return value.slice()
    if (value instanceof Error) return Object.assign(new value.constructor(value.message), { stack: value.stack })
    const made = Array.isArray(value) ? [] : value instanceof Map ? new Map() : value instanceof Set ? new Set() : {}
    seen.set(value, made)
    if (made instanceof Map) for (const [key, item] of value) made.set(copy(key, seen), copy(item, seen))
    else if (made instanceof Set) for (const item of value) made.add(copy(item, seen))
    else for (const key of Object.keys(value)) made[key] = copy(value[key], seen)
    return made
  }

  const unlike = /^\[object (Map|Set|WeakMap|WeakSet|Promise)\]$/
  const strict = (key, member) => {
    const kind = typeof member
    if (kind === 'string' || kind === 'boolean') return member
    if (kind === 'number' && !Number.isFinite(member)) throw new TypeError(member + ' is not a JSON number')
    if (kind === 'bigint') throw new TypeError('a BigInt would lose digits; return it as a string')
    if (kind === 'function' || kind === 'symbol') throw new TypeError('it holds a ' + kind)
    const name = unlike.exec(Object.prototype.toString.call(member))?.[1]
    if (name !== undefined) throw new TypeError('it holds a ' + name)
    return member
  }

  let files
  const require = (name) => {
    const plain = String(name).replace(/^node:/, '')
    if (plain !== 'fs' && plain !== 'fs/promises') {
      throw Object.assign(new Error("Cannot find module '" + name + "'; there are only fs and fs/promises"), { code: 'MODULE_NOT_FOUND' })
    }
    files ??= host.files()({ host, write, bytesOf, TextDecoder })
    return plain === 'fs' ? files : files.promises
  }

  const give = (name, value) => Object.defineProperty(globalThis, name, { value, writable: true, configurable: true, enumerable: false })
  for (const [name, value] of Object.entries({
    console, process, require, crypto, TextEncoder, TextDecoder, structuredClone: (value) => copy(value),
    setTimeout: start(false), setInterval: start(true), setImmediate: (work, ...values) => start(false)(work, 0, ...values),
    clearTimeout: stop, clearInterval: stop, clearImmediate: stop,
    queueMicrotask: (work) => void Promise.resolve().then(work),
  })) give(name, value)
  Object.defineProperty(globalThis, 'stdin', { get: () => host.decode(host.stdin()), configurable: true })

  const clip = (text) => String(text).slice(0, 10000)
  const faultOf = (error) => {
    const isError = error instanceof Error
    const stack = isError ? placed(String(error.stack ?? '')).replace(/^(?!.*main\.js:).*\n?|^\s+at <eval> \(main\.js:.*\n?/gm, '').trimEnd() : ''
    const [, line, column] = /\bmain\.js:(\d+):(\d+)/.exec(stack) ?? []
    return stringify({
      name: isError ? clip(error.name) : 'Error',
      message: clip(isError ? error.message : 'Uncaught ' + inspect(error)),
      line: line && Number(line), column: column && Number(column), stack: clip(stack), error: gateway.errorOf(error),
    })
  }
  const gateway = (${gatewayModule})({ host, out, give, stringify, parse, strict, bytesOf, faultOf, ended: (value) => finish(value) })
  const exitCode = () => Number(process.exitCode ?? 0) & 255
  const finish = (value) => exitCode() + ' ' + (stringify(value, strict) ?? '')
  return {
    open: gateway.begin,
    watch: gateway.watch,
    deliver: gateway.deliver,
    rest: gateway.rest,
    end: gateway.end,
    fault: faultOf,
    begin(env, ...words) {
      process.env = parse(env)
      process.exitCode = undefined
      seed = Uint32Array.of(...words)
    },
    fire(id) {
      const timer = timers.get(id)
      if (timer === undefined) return
      if (timer.delay === undefined) timers.delete(id)
      else host.timer(id, timer.delay)
      timer.work(...timer.values)
    },
    describe: (error) => (error instanceof Error ? errorText(error) : 'Uncaught ' + inspect(error)),
    place(count) { columns = count },
    finish,
    exitCode,
  }
}`
