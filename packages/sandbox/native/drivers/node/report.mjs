/** What a program hands over: its value and its errors. */
import { pathToFileURL } from 'node:url'
import { inspect } from 'node:util'
import { send } from './channel.mjs'
import { extension, maps } from './code.mjs'

/** Sends a value, or says on stderr why not. */
export function deliver(value) {
  try {
    sendValue(value)
  } catch (error) {
    const [reason] = String(error?.message ?? error).split('\n')
    process.stderr.write(`gantry: the value is left out because it is not JSON: ${reason}\n`)
  }
}

/** Sends a value as strict JSON, nothing for undefined; throws for what JSON would lose. */
export function sendValue(value) {
  const text = JSON.stringify(value, checked)
  if (text === undefined) return
  const long = Buffer.byteLength(text) > longestValue
  if (long) throw new TypeError(`it is longer than ${longestValue} bytes; write it to a file`)
  send(`{"value":${text}}`)
}

const longestValue = 1_000_000

const unlike = /^\[object (Map|Set|WeakMap|WeakSet|Promise)\]$/

function checked(key, member) {
  const kind = typeof member
  if (kind === 'number' && !Number.isFinite(member)) throw new TypeError(`${member} is not a JSON number`)
  // Larger ones are written with an exponent, which does not look exact.
  if (Number.isInteger(member) && !Number.isSafeInteger(member) && Math.abs(member) < 1e21)
    throw new TypeError('an integer beyond 2**53 would lose digits; return it as a string')
  if (kind === 'bigint') throw new TypeError('a BigInt would lose digits; return it as a string')
  if (kind === 'function' || kind === 'symbol') throw new TypeError(`it holds a ${kind}`)
  const name = unlike.exec(Object.prototype.toString.call(member))?.[1]
  if (name !== undefined) throw new TypeError(`it holds a ${name}`)
  const whole = key.isWellFormed() && (kind !== 'string' || member.isWellFormed())
  if (!whole) throw new TypeError('it holds half of a character pair')
  return member
}

/** Prints an uncaught error. */
export function show(error) {
  let text = 'Uncaught (an error that cannot be shown)'
  try {
    text = describe(error)
  } catch {}
  process.stderr.write(`${text}\n`)
}

const drivers = RegExp.escape(new URL('..', import.meta.url).href)
const below = new RegExp(`^\\s+at .*(?:node:internal/(?:modules|process|timers|vm)|node:(?:vm|inspector):|${drivers})`)

/** An error as Node.js shows it, without what lies below the program, at the places that the program's text has. */
function describe(error) {
  const name = `main.${extension}`
  const address = `${pathToFileURL(process.cwd()).href}/${name}`
  const shown = []
  for (const line of (error instanceof Error ? inspect(error) : `Uncaught ${inspect(error)}`).split('\n')) {
    if (!below.test(line)) shown.push(line.replaceAll(address, name))
    else if (line.endsWith(' {')) shown.push(`${shown.pop()} {`)
  }
  return shown.join('\n').replace(/\b([\w-]+\.ts):(\d+):(\d+)/g, originalPlace)
}

/** The place in TypeScript for a place in the JavaScript made from it. */
function originalPlace(place, name, line, column) {
  const made = maps.get(name)
  const shift = made?.wrapped ? 0 : 1
  const found = made?.map.findEntry(Number(line) - shift, Number(column) - 1)
  if (found?.originalLine === undefined) return place
  return `${name}:${found.originalLine + shift}:${found.originalColumn + 1}`
}
