import { ToolError } from '@gantry/contract'
import { type Slice, sliceCount } from './window.ts'

interface Kept {
  readonly since: number
  readonly streak: number
  readonly openMs: number
  readonly window: readonly Slice[]
}

/** What of a breaker survives a process. Times are milliseconds since 1970. */
export type BreakerJson =
  | (Kept & { readonly state: 'closed' })
  | (Kept & { readonly state: 'open'; readonly retryAt: number })

const keys: { readonly [State in BreakerJson['state']]: readonly string[] } = {
  closed: ['state', 'since', 'streak', 'openMs', 'window'],
  open: ['state', 'since', 'streak', 'openMs', 'window', 'retryAt'],
}

/** Reads what was kept, as a copy of its own; CONFIG_INVALID when it is anything else. */
export function readBreaker(json: unknown): BreakerJson {
  if (typeof json !== 'object' || json === null || Array.isArray(json)) throw refused('', 'must be an object')
  const { state, since, streak, openMs, window, retryAt } = json as { readonly [key: string]: unknown }
  if (state !== 'closed' && state !== 'open') throw refused('/state', 'must be closed or open')
  const unknown = Object.keys(json).find((key) => !keys[state].includes(key))
  if (unknown !== undefined) throw refused('', `must have only the keys ${keys[state].join(', ')}`)
  const kept: Kept = {
    since: amount(since, '/since'),
    streak: count(streak, '/streak'),
    openMs: amount(openMs, '/openMs'),
    window: readWindow(window),
  }
  return state === 'closed' ? { state, ...kept } : { state, ...kept, retryAt: amount(retryAt, '/retryAt') }
}

function readWindow(window: unknown): Slice[] {
  if (!Array.isArray(window) || window.length > sliceCount) {
    throw refused('/window', `must be a list of at most ${sliceCount} slices`)
  }
  let before = Number.NEGATIVE_INFINITY
  return window.map((slice: unknown, index): Slice => {
    const path = `/window/${index}`
    if (!Array.isArray(slice) || slice.length !== 3) throw refused(path, 'must be [start, calls, failures]')
    const [start, calls, failures] = [amount(slice[0], path), count(slice[1], path), count(slice[2], path)]
    if (failures > calls || start <= before)
      throw refused(path, 'must come after the one before, with failures ≤ calls')
    before = start
    return [start, calls, failures]
  })
}

function amount(value: unknown, path: string): number {
  if (typeof value === 'number' && value >= 0 && value <= Number.MAX_SAFE_INTEGER) return value
  throw refused(path, 'must be a number of at least 0')
}

/** More calls than a process makes in a window; counts beyond it would keep a circuit closed for good. */
const mostCalls = 1_000_000_000

function count(value: unknown, path: string): number {
  if (Number.isInteger(value) && Number(value) <= mostCalls) return amount(value, path)
  throw refused(path, `must be a whole number from 0 to ${mostCalls}`)
}

function refused(path: string, message: string): ToolError {
  const text = `This is not the kept state of a breaker: ${path === '' ? 'it' : path} ${message}.`
  return new ToolError('CONFIG_INVALID', text, { details: { issues: [{ path, message }] } })
}
