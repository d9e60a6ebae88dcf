import type { Tool } from '@gantry/contract'
import { definitionHash, definitionOf } from './definition.ts'
import type { Pin, PinnedDefinition, Pins } from './pin.ts'

/** A tool that may not be called until somebody approves what it has become. */
export interface Quarantined {
  readonly name: string
  /** `renamed`: it appeared when a pinned tool went, which is how a changed tool would slip past its pin. */
  readonly reason: 'changed' | 'renamed'
  /** What was trusted; absent for one that appeared. */
  readonly before?: PinnedDefinition
  readonly after: PinnedDefinition
}

export interface Review {
  /** Tools as trusted as they were, or new on a source's first day. */
  readonly trusted: readonly Tool[]
  readonly quarantined: readonly Quarantined[]
  /** What to keep from now on; the same object when nothing changed. */
  readonly pins: Pins
}

/**
 * Compares what a source offers with what was trusted.
 * - A source that was never seen is trusted as it is (trust on first use) and pinned.
 * - A tool that equals its pin is trusted; one that differs is quarantined, and its pin stays.
 * - A new tool is pinned and trusted, unless a pinned one is missing: then it may be that one under another name.
 * - The pin of a missing tool stays, so that it cannot come back changed.
 */
export function review(offered: readonly Tool[], pins: Pins | undefined, at: string): Review {
  const known = new Map(Object.entries(pins ?? {}))
  const names = new Set(offered.map(({ name }) => name))
  const missing = [...known.keys()].some((name) => !names.has(name))
  const trusted: Tool[] = []
  const quarantined: Quarantined[] = []
  const fresh: [string, Pin][] = []
  for (const tool of offered) {
    const after = definitionOf(tool)
    const hash = definitionHash(after)
    const pin = known.get(tool.name)
    if (pin?.hash === hash) trusted.push(tool)
    else if (pin !== undefined) {
      quarantined.push({ name: tool.name, reason: 'changed', before: pin.definition, after })
    } else if (missing) quarantined.push({ name: tool.name, reason: 'renamed', after })
    else {
      trusted.push(tool)
      fresh.push([tool.name, { hash, definition: after, at, by: 'first-use' }])
    }
  }
  const next = fresh.length === 0 && pins !== undefined ? pins : Object.fromEntries([...known, ...fresh])
  return { trusted, quarantined, pins: next }
}
