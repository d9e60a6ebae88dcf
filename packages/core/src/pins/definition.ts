import type { Json, JsonObject, Tool } from '@gantry/contract'
import { escapeSegment } from '@gantry/json-schema/internal/pointer'
import { digestOf } from '../json/canonical.ts'
import type { PinnedDefinition } from './pin.ts'

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

/** One place where two definitions differ; a side is undefined where it has nothing there. */
export interface Difference {
  /** JSON Pointer into the definition: `/description`, `/inputSchema/properties/path`. */
  readonly path: string
  readonly before: Json | undefined
  readonly after: Json | undefined
}

/** Beyond this the definitions are shown whole instead, because what is left out of a diff would be trusted unseen. */
const mostDifferences = 200

/** Every place where the definitions differ, as deep as the difference lies. */
export function differences(before: PinnedDefinition | undefined, after: PinnedDefinition): readonly Difference[] {
  const found: Difference[] = []
  const [was, is] = [before as unknown as Json | undefined, after as unknown as Json]
  compare(was, is, '', found)
  return found.length > mostDifferences ? [{ path: '', before: was, after: is }] : found
}

function compare(before: Json | undefined, after: Json | undefined, path: string, found: Difference[]): void {
  if (found.length > mostDifferences || before === after) return
  if (!isContainer(before) || !isContainer(after) || Array.isArray(before) !== Array.isArray(after)) {
    if (JSON.stringify(before) !== JSON.stringify(after)) found.push({ path, before, after })
    return
  }
  const keys = new Set([...Object.keys(before), ...Object.keys(after)])
  for (const key of keys) {
    compare(member(before, key), member(after, key), `${path}/${escapeSegment(key)}`, found)
  }
}

type Container = JsonObject | Json[]

function isContainer(value: Json | undefined): value is Container {
  return typeof value === 'object' && value !== null
}

function member(value: Container, key: string): Json | undefined {
  return Object.hasOwn(value, key) ? (value as JsonObject)[key] : undefined
}

/**
 * The differences for a person: a line for the place, `-` for what was, `+` for what is. Characters that a terminal
 * would obey or not show are written as their code, because that is where a poisoned text hides.
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

/** DI is what Unicode leaves to no font: selectors, fillers, joiners; U+2800 is a Braille letter without a dot. */
const unseen = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cn}\p{Cs}\p{DI}\u2800]/gu

/** Text with every character that is invisible or acts on a terminal written as `\u{…}`. */
export function visible(text: string): string {
  return text.replace(unseen, (character) => {
    return `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`
  })
}
