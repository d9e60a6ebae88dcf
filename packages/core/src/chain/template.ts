import type { Json } from '@gantry/contract'
import { escapeSegment } from '@gantry/json-schema/internal/pointer'
import { parseReference, type Reference } from './reference.ts'

/** JSON with its references parsed, so that text which arrives later is never read as a reference. */
export type Template =
  | { readonly kind: 'value'; readonly value: Json }
  | { readonly kind: 'reference'; readonly reference: Reference }
  | { readonly kind: 'text'; readonly parts: readonly (string | Reference)[] }
  | { readonly kind: 'list'; readonly items: readonly Template[] }
  | { readonly kind: 'object'; readonly members: readonly (readonly [key: string, value: Template])[] }

/** Told of everything found while a chain is read. */
export interface Visitor {
  issue(path: string, message: string): void
  reference(path: string, reference: Reference): void
}

/** Parses the references in every string of a value; keys are left alone. */
export function compileTemplate(value: Json, path: string, visitor: Visitor): Template {
  if (typeof value === 'string') return compileText(value, path, visitor)
  if (Array.isArray(value)) {
    return { kind: 'list', items: value.map((item, index) => compileTemplate(item, `${path}/${index}`, visitor)) }
  }
  if (typeof value !== 'object' || value === null) return { kind: 'value', value }
  const members = Object.entries(value).map(
    ([key, member]) => [key, compileTemplate(member, `${path}/${escapeSegment(key)}`, visitor)] as const,
  )
  return { kind: 'object', members }
}

function compileText(text: string, path: string, visitor: Visitor): Template {
  if (!text.includes('{{')) return { kind: 'value', value: text }
  const parsed = parseText(text)
  if (!parsed.ok) {
    visitor.issue(path, parsed.fault)
    return { kind: 'value', value: text }
  }
  for (const part of parsed.parts) if (typeof part !== 'string') visitor.reference(path, part)
  const [first, ...rest] = parsed.parts
  if (first === undefined || (typeof first === 'string' && rest.length === 0))
    return { kind: 'value', value: first ?? '' }
  return typeof first !== 'string' && rest.length === 0
    ? { kind: 'reference', reference: first }
    : { kind: 'text', parts: parsed.parts }
}

type ParsedText =
  | { readonly ok: true; readonly parts: readonly (string | Reference)[] }
  | { readonly ok: false; readonly fault: string }

/** Splits text at its references. Backslashes right before `{{` pair up; an odd one makes the braces plain text. */
export function parseText(text: string): ParsedText {
  const parts: (string | Reference)[] = []
  let plain = ''
  let at = 0
  for (const brace of openings(text)) {
    if (brace.braces < at) continue
    plain += text.slice(at, brace.slashes) + '\\'.repeat(Math.floor((brace.braces - brace.slashes) / 2))
    at = brace.braces
    if ((brace.braces - brace.slashes) % 2 === 1) {
      plain += '{{'
      at += 2
      continue
    }
    const parsed = parseReference(text, at)
    if (!parsed.ok) return { ok: false, fault: faultText(text, at, parsed.fault) }
    if (plain !== '') parts.push(plain)
    parts.push(parsed.reference)
    plain = ''
    at = parsed.end
  }
  plain += text.slice(at)
  if (plain !== '') parts.push(plain)
  return { ok: true, parts }
}

/** Every `{{` and where the backslashes before it begin. */
function* openings(text: string): Generator<{ slashes: number; braces: number }> {
  for (let braces = text.indexOf('{{'); braces !== -1; braces = text.indexOf('{{', braces + 2)) {
    let slashes = braces
    while (slashes > 0 && text[slashes - 1] === '\\') slashes -= 1
    yield { slashes, braces }
  }
}

function faultText(text: string, at: number, fault: string): string {
  const shown = text.slice(at, at + 60)
  return `"${shown}${at + 60 < text.length ? '…' : ''}" ${fault}; write \\{{ for plain braces`
}
