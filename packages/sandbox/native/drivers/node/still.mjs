/** Runs of JavaScript that can be repeated. */
import crypto from 'node:crypto'
import { syncBuiltinESMExports } from 'node:module'
import os from 'node:os'

/** Random numbers from a seed, and a clock that stands; timers go on, because every waiting rests on them. */
export function holdStill({ seed, nowMs }) {
  let state = seed >>> 0
  const random = () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  const fill = (array) => {
    const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength)
    for (let at = 0; at < bytes.length; at += 1) bytes[at] = Math.floor(random() * 256)
    return array
  }
  /** `offset` and `size` count elements, as in Node. */
  const randomFillSync = (target, offset = 0, size) => {
    const isBuffer = !ArrayBuffer.isView(target)
    const unit = isBuffer ? 1 : (target.BYTES_PER_ELEMENT ?? 1)
    const end = size === undefined ? target.byteLength : (offset + size) * unit
    if (!(offset >= 0 && offset * unit <= end && end <= target.byteLength)) {
      throw new RangeError('The offset and size are outside of the buffer.')
    }
    const [buffer, start] = isBuffer ? [target, 0] : [target.buffer, target.byteOffset]
    fill(new Uint8Array(buffer, start + offset * unit, end - offset * unit))
    return target
  }
  const randomFill = (target, ...rest) => {
    const done = rest.pop()
    randomFillSync(target, ...rest)
    process.nextTick(done, null, target)
  }
  const randomInt = (...given) => {
    const done = typeof given.at(-1) === 'function' ? given.pop() : undefined
    const [least, most] = given.length === 1 ? [0, given[0]] : given
    if (!(Number.isSafeInteger(least) && Number.isSafeInteger(most) && least < most && most - least < 2 ** 48)) {
      throw new RangeError('The limits must be safe integers, the second above the first by less than 2 ** 48.')
    }
    const drawn = Math.floor(random() * 2 ** 21) * 2 ** 32 + Math.floor(random() * 2 ** 32)
    const value = least + (drawn % (most - least))
    return done === undefined ? value : process.nextTick(done, null, value)
  }
  Math.random = random
  const real = Date
  const now = () => nowMs
  globalThis.Date = new Proxy(real, {
    construct: (target, given, made) => Reflect.construct(target, given.length === 0 ? [nowMs] : given, made),
    apply: () => new real(nowMs).toString(),
    get: (target, key, receiver) => (key === 'now' ? now : Reflect.get(target, key, receiver)),
  })
  real.prototype.constructor = globalThis.Date
  freezeFormats(nowMs)
  performance.now = () => 0
  Object.defineProperty(performance, 'timeOrigin', { value: nowMs, configurable: true })
  performance.toJSON = () => ({ timeOrigin: nowMs })
  os.uptime = () => 0
  process.uptime = () => 0
  process.hrtime = Object.assign(() => [0, 0], { bigint: () => 0n })
  const uuid = () => {
    const hex = fill(Buffer.alloc(16))
    hex[6] = (hex[6] & 0x0f) | 0x40
    hex[8] = (hex[8] & 0x3f) | 0x80
    return hex.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
  }
  const randomBytes = (size, done) => {
    const bytes = fill(Buffer.alloc(size))
    return done === undefined ? bytes : process.nextTick(done, null, bytes)
  }
  replace(crypto.webcrypto, { getRandomValues: fill, randomUUID: uuid })
  replace(crypto, {
    randomUUID: uuid,
    randomBytes,
    pseudoRandomBytes: randomBytes,
    randomFillSync,
    randomFill,
    randomInt,
  })
  syncBuiltinESMExports()
}

/** Without a date, a format takes the real time. */
function freezeFormats(nowMs) {
  const { prototype } = Intl.DateTimeFormat
  const { get } = Object.getOwnPropertyDescriptor(prototype, 'format')
  const formats = new WeakMap()
  Object.defineProperty(prototype, 'format', {
    configurable: true,
    get() {
      const format = get.call(this)
      if (!formats.has(format)) formats.set(format, (date = nowMs) => format(date))
      return formats.get(format)
    },
  })
  const { formatToParts } = prototype
  replace(prototype, {
    formatToParts(date = nowMs) {
      return formatToParts.call(this, date)
    },
  })
  Object.defineProperty(prototype, 'formatToParts', { enumerable: false })
}

function replace(owner, members) {
  for (const [name, value] of Object.entries(members)) {
    Object.defineProperty(owner, name, { value, configurable: true, enumerable: true, writable: true })
  }
}
