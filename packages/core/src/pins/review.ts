import type { Tool } from '@gantry/contract'
import { definitionHash, definitionOf } from './definition.ts'
import type { Pin, PinnedDefinition, Pins } from './pin.ts'

/** A tool that may not be called until somebody approves what it has become. */
export interface Quarantined {
  readonly name: string
  /** `renamed`: it appeared when or before a pinned tool went, which is how a changed tool would slip past its pin. */
  readonly reason: 'changed' | 'renamed'
  /** What was trusted; absent for one that appeared. */
  readonly before?: PinnedDefinition
  readonly after: PinnedDefinition
}

export interface Review {
  /** Tools as trusted as they were, or new on a source's first day. */
  readonly trusted: readonly Tool[]
  readonly quarantined: readonly Quarantined[]
  /** Pins to add to those there are. */
  readonly fresh: Pins
}

/**
 * Compares what a source offers with what was trusted.
 * - A source that was never seen is trusted as it is (trust on first use) and pinned.
 * - A tool that differs from its pin is quarantined, and its pin stays.
 * - A new tool is pinned and trusted, unless a pinned one is missing: then it may be that one under another name.
 * - A tool that equals its pin is trusted, unless it came after a pinned one that is missing now and nobody ever
 *   approved it: a rename may be made in two steps, the new name first and the old one gone later. Once somebody
 *   approves it, its pin names them, and it stays trusted whatever goes.
 * - The pin of a missing tool stays, so that it cannot come back changed.
 * What came first is told by when a name was first pinned: a tool that was approved anew is as old as it was.
 */
export function review(offered: readonly Tool[], pins: Pins | undefined, at: string): Review {
  const known = new Map(Object.entries(pins ?? {}))
  const names = new Set(offered.map(({ name }) => name))
  const missing = [...known].filter(([name]) => !names.has(name)).map(([, pin]) => pin)
  const trusted: Tool[] = []
  const quarantined: Quarantined[] = []
  const fresh: [string, Pin][] = []
  for (const tool of offered) {
    const after = definitionOf(tool)
    const hash = definitionHash(after)
    const pin = known.get(tool.name)
    if (pin !== undefined && pin.hash !== hash) {
      quarantined.push({ name: tool.name, reason: 'changed', before: pin.definition, after })
    } else if (missing.some((gone) => mayReplace(gone, pin))) {
      quarantined.push({ name: tool.name, reason: 'renamed', after })
    } else {
      trusted.push(tool)
      if (pin === undefined) fresh.push([tool.name, { hash, definition: after, at, by: firstUse }])
    }
  }
  return { trusted, quarantined, fresh: Object.fromEntries(fresh) }
}

const firstUse = 'first-use'

/** Whether a tool with this pin, or without one yet, may be the one that has gone. */
function mayReplace(gone: Pin, pin: Pin | undefined): boolean {
  return pin === undefined || (pin.by === firstUse && firstPinned(pin) > firstPinned(gone))
}

/** Times are compared as text: all of them are ISO 8601 in UTC with milliseconds. */
function firstPinned({ at, since = at }: Pin): string {
  return since
}
