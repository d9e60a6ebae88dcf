import type { Json, JsonObject, Tool } from '@gantry/contract'
import { isComposite } from '@gantry/contract/internal/json'
import { escapeSegment } from '@gantry/json-schema/internal/pointer'
import { digestOf } from '../json/canonical.ts'
import type { Pin, PinnedDefinition, Pins } from './pin.ts'

/** The part of a tool that is pinned. */
export function definitionOf(tool: Tool): PinnedDefinition {
  const { name, title, description, inputSchema, outputSchema, annotations } = tool
  const rawName = tool.backends[0]?.tool
  return {
    name,
    ...(typeof rawName === 'string' && rawName !== name ? { rawName } : {}),
    description,
    inputSchema,
    ...(title === undefined ? {} : { title }),
    ...(outputSchema === undefined ? {} : { outputSchema }),
    ...(annotations === undefined ? {} : { annotations }),
  }
}

/** SHA-256 of the definition's canonical JSON, so that the order of keys makes no difference. */
export function definitionHash(definition: PinnedDefinition): string {
  return digestOf(definition)
}

/** One difference between two definitions; a side is undefined where the member is absent. */
export interface Difference {
  /** JSON Pointer into the definition: `/description`, `/inputSchema/properties/path`. */
  readonly path: string
  readonly before: Json | undefined
  readonly after: Json | undefined
}

/** With more differences both definitions are shown in full, because a truncated diff would be approved unseen. */
const mostDifferences = 200

/** All differences between the definitions, each at its deepest path. */
export function differences(before: PinnedDefinition | undefined, after: PinnedDefinition): readonly Difference[] {
  const found: Difference[] = []
  const [was, is] = [before, after].map((definition) => definition as unknown as Json | undefined)
  compare(was, is, '', found)
  return found.length > mostDifferences ? [{ path: '', before: was, after: is }] : found
}

function compare(before: Json | undefined, after: Json | undefined, path: string, found: Difference[]): void {
  if (found.length > mostDifferences || before === after) return
  if (!isComposite(before) || !isComposite(after) || Array.isArray(before) !== Array.isArray(after)) {
    if (JSON.stringify(before) !== JSON.stringify(after)) found.push({ path, before, after })
    return
  }
  const keys = new Set([...Object.keys(before), ...Object.keys(after)])
  for (const key of keys) {
    compare(member(before, key), member(after, key), `${path}/${escapeSegment(key)}`, found)
  }
}

type Container = JsonObject | Json[]

function member(value: Container, key: string): Json | undefined {
  if (!Object.hasOwn(value, key)) return undefined
  return Array.isArray(value) ? value[Number(key)] : value[key]
}

/**
 * The diff for a reviewer: a line for the path, `-` for the old value, `+` for the new value. Control and invisible
 * characters are escaped, because a poisoned text hides in them.
 */
export function diffText(list: readonly Difference[]): string {
  const lines = list.flatMap(({ path, before, after }) => [
    path === '' ? '(everything)' : visible(path),
    ...side('-', before),
    ...side('+', after),
  ])
  return lines.join('\n')
}

function side(mark: '-' | '+', value: Json | undefined): string[] {
  if (value === undefined) return []
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  return text.split(/\r\n|\r|\n/).map((line) => `  ${mark} ${visible(line)}`)
}

/** DI is Default_Ignorable_Code_Point (selectors, fillers, joiners); U+2800 is the blank Braille pattern. */
const unseen = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cn}\p{Cs}\p{DI}\u2800]/gu

/** Escapes invisible and control characters as `\u{…}`. */
export function visible(text: string): string {
  return text.replace(unseen, (character) => {
    return `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`
  })
}

/** A tool that must not be called until an operator approves its new definition. */
export interface Quarantined {
  readonly name: string
  /** `renamed`: it appeared when or before a pinned tool disappeared, so it may be that tool, changed, under a new name. */
  readonly reason: 'changed' | 'renamed'
  /** The trusted definition; absent for a new tool. */
  readonly before?: PinnedDefinition
  readonly after: PinnedDefinition
}

interface Review {
  /** Tools that may be called. */
  readonly trusted: readonly Tool[]
  readonly quarantined: readonly Quarantined[]
  /** Pins to save. */
  readonly fresh: Pins
}

/**
 * Compares the tools of a source with its pins.
 * - A new source is trusted (trust on first use) and pinned.
 * - A tool that differs from its pin is quarantined, and its pin is kept.
 * - A new tool is pinned and trusted, unless a pinned tool is missing: it may be that tool under a new name.
 * - A tool that equals its pin is trusted, unless it was first pinned after a tool that is now missing and no operator
 *   has approved it: a rename can be done in two steps, the new name first and the removal of the old one later. Once an
 *   operator approves it, its pin names the operator, and it stays trusted.
 * - The pin of a missing tool is kept, so that it cannot return changed.
 * The age of a tool is the time of the first pin of its name: a new approval does not change it.
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

/** Whether a tool with this pin, or without a pin, may be a rename of the missing tool. */
function mayReplace(gone: Pin, pin: Pin | undefined): boolean {
  return pin === undefined || (pin.by === firstUse && firstPinned(pin) > firstPinned(gone))
}

/** Times are compared as text: all of them are ISO 8601 in UTC with milliseconds. */
function firstPinned({ at, since = at }: Pin): string {
  return since
}
