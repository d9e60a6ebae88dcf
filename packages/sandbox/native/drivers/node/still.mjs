/** Runs of JavaScript that can be repeated. */
import crypto from 'node:crypto'
import { syncBuiltinESMExports } from 'node:module'

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
  Math.random = random
  const real = Date
  const now = () => nowMs
  globalThis.Date = new Proxy(real, {
    construct: (target, given, made) => Reflect.construct(target, given.length === 0 ? [nowMs] : given, made),
    apply: () => new real(nowMs).toString(),
    get: (target, key, receiver) => (key === 'now' ? now : Reflect.get(target, key, receiver)),
  })
  real.prototype.constructor = globalThis.Date
  performance.now = () => 0
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
  replace(crypto, { randomUUID: uuid, randomBytes, randomFillSync: fill })
  syncBuiltinESMExports()
}

function replace(owner, members) {
  for (const [name, value] of Object.entries(members)) {
    Object.defineProperty(owner, name, { value, configurable: true, enumerable: true, writable: true })
  }
}
