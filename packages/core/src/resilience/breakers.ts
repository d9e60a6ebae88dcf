import { ToolError } from '@gantry/contract'
import { type Breaker, type BreakerOptions, breakerShapes, createBreaker } from './breaker.ts'
import type { BreakerJson } from './breaker-json.ts'
import type { BreakerState } from './circuit.ts'
import { checkShapes } from './options.ts'

export interface BreakersOptions extends Omit<BreakerOptions, 'name'> {
  /** How many are kept. */
  readonly most?: number
}

/** A key and what became of its breaker. */
export type KeyedState = BreakerState & { readonly key: string }
export interface KeyedJson {
  readonly key: string
  readonly breaker: BreakerJson
}

/**
 * A breaker for each key, such as a tool at a backend, made when first asked for; its name is the key.
 * Beyond `most`, the one longest unused that is closed without a failure goes, or else simply the one longest unused.
 */
export interface Breakers {
  get(key: string): Breaker
  list(): KeyedState[]
  /** Closes the breaker of a key, if there is one. */
  close(key: string): void
  snapshot(): KeyedJson[]
  /** Takes up what `snapshot` gave, beside what is there; CONFIG_INVALID when it is anything else. */
  restore(json: unknown): void
}

export function createBreakers(options: BreakersOptions = {}): Breakers {
  const { name: _, ...shapes } = breakerShapes
  checkShapes('createBreakers', options, { ...shapes, most: { kind: 'number', least: 1, whole: true } })
  const { most = 1_000, ...each } = options
  /** In the order of use. */
  const kept = new Map<string, Breaker>()
  let newest: string | undefined

  const make = (key: string): Breaker => {
    if (kept.size >= most) kept.delete(leastNeeded(kept))
    return createBreaker({ ...each, name: key })
  }
  const get = (key: string): Breaker => {
    const known = kept.get(key)
    if (known !== undefined && key === newest) return known
    const breaker = known ?? make(key)
    kept.delete(key)
    kept.set(key, breaker)
    newest = key
    return breaker
  }
  return {
    get,
    list: () => [...kept].map(([key, breaker]) => ({ key, ...breaker.state })),
    close: (key) => kept.get(key)?.close(),
    snapshot: () => [...kept].map(([key, breaker]) => ({ key, breaker: breaker.toJSON() })),
    restore(json) {
      const scratch = createBreaker(each)
      const rows = readRows(json, most)
      for (const { breaker } of rows) scratch.restore(breaker)
      for (const { key, breaker } of rows) get(key).restore(breaker)
    },
  }
}

function leastNeeded(kept: ReadonlyMap<string, Breaker>): string {
  const [oldest = ''] = kept.keys()
  for (const [key, breaker] of kept) {
    const { state, failures } = breaker.state
    if (state === 'closed' && failures === 0) return key
  }
  return oldest
}

/** Reads the rows of a snapshot; CONFIG_INVALID when it is none. */
export function readRows(json: unknown, most: number): { readonly key: string; readonly breaker: unknown }[] {
  const sound = Array.isArray(json) && json.length <= most
  if (!sound) throw refused('', `must be a list of at most ${most} breakers`)
  return json.map((row: unknown, index) => {
    const { key, breaker } = (row ?? {}) as { readonly key?: unknown; readonly breaker?: unknown }
    if (typeof key !== 'string') throw refused(`/${index}/key`, 'must be a text')
    return { key, breaker }
  })
}

function refused(path: string, message: string): ToolError {
  const text = `These are not the kept states of breakers: ${path === '' ? 'it' : path} ${message}.`
  return new ToolError('CONFIG_INVALID', text, { details: { issues: [{ path, message }] } })
}
