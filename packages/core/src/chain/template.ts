import { type Json, type JsonObject, ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { escapeSegment } from '@gantry/json-schema/internal/pointer'
import { copyJson, JsonError, utf8Length } from '../json/plain.ts'
import { type Allowance, type ChainLimits, createAllowance, sizeOf } from './limits.ts'
import { parseReference, type Reference, readReference, type Scope } from './reference.ts'

/** JSON with its references parsed, so that text of a bound value is not parsed as a reference. */
export type Template =
  | { readonly kind: 'value'; readonly value: Json }
  | { readonly kind: 'reference'; readonly reference: Reference }
  | { readonly kind: 'text'; readonly parts: readonly (string | Reference)[] }
  | { readonly kind: 'list'; readonly items: readonly Template[] }
  | { readonly kind: 'object'; readonly members: readonly (readonly [key: string, value: Template])[] }

/** Receives every issue and reference found while a chain is compiled. */
export interface Collector {
  issue(path: string, message: string): void
  reference(path: string, reference: Reference): void
}

/** Parses the references in every string of a value, not in keys. */
export function compileTemplate(value: Json, path: string, collector: Collector): Template {
  if (typeof value === 'string') return compileText(value, path, collector)
  if (Array.isArray(value)) {
    return { kind: 'list', items: value.map((item, index) => compileTemplate(item, `${path}/${index}`, collector)) }
  }
  if (typeof value !== 'object' || value === null) return { kind: 'value', value }
  const members = Object.entries(value).map(
    ([key, member]) => [key, compileTemplate(member, `${path}/${escapeSegment(key)}`, collector)] as const,
  )
  return { kind: 'object', members }
}

function compileText(text: string, path: string, collector: Collector): Template {
  if (!text.includes('{{')) return { kind: 'value', value: text }
  const parsed = parseText(text)
  if (!parsed.ok) {
    collector.issue(path, parsed.fault)
    return { kind: 'value', value: text }
  }
  for (const part of parsed.parts) if (typeof part !== 'string') collector.reference(path, part)
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

/** Every `{{` with the start of the backslashes before it. */
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

/**
 * A template with its references replaced, as a new value that shares nothing with earlier outputs.
 * A template that is one reference keeps its type; inside text a reference becomes text. Bound values are not expanded.
 */
export function bind(template: Template, scope: Scope, limits: ChainLimits): Json {
  try {
    const bound = evaluate(template, scope, createAllowance('argsBytes', limits))
    return copyJson(bound, { limits: { bytes: limits.argsBytes, depth: limits.argsDepth, nodes: limits.argsBytes } })
  } catch (error) {
    throw error instanceof JsonError ? refused(error) : error
  }
}

/** Binds a template that must be an object. */
export function bindArgs(args: Template, scope: Scope, limits: ChainLimits): JsonObject {
  const bound = bind(args, scope, limits)
  if (isObject(bound)) return bound
  throw new ToolError('REFERENCE_INVALID', 'The arguments are not an object.')
}

/**
 * A template's value, shared with the scope: for reading only.
 * The value of a template that is one reference is free; a built value counts, with everything that it refers to.
 */
export function view(template: Template, scope: Scope, allowance: Allowance): Json {
  const value = evaluate(template, scope, allowance)
  if (template.kind === 'list' || template.kind === 'object') allowance.spend(sizeOf(value, allowance.left))
  return value
}

/** Shares referenced values, so that only text takes memory. */
function evaluate(template: Template, scope: Scope, allowance: Allowance): Json {
  switch (template.kind) {
    case 'value':
      return template.value
    case 'reference':
      return readReference(template.reference, scope)
    case 'text':
      return fillText(template.parts, scope, allowance)
    case 'list':
      return template.items.map((item) => evaluate(item, scope, allowance))
    case 'object': {
      const target: JsonObject = {}
      for (const [key, member] of template.members) target[key] = evaluate(member, scope, allowance)
      return target
    }
  }
}

/** Measures while the text grows, because a few references can make a very long text. */
function fillText(parts: (Template & { kind: 'text' })['parts'], scope: Scope, allowance: Allowance): string {
  let text = ''
  for (const part of parts) {
    const piece = typeof part === 'string' ? part : asText(readReference(part, scope))
    allowance.spend(utf8Length(piece))
    text += piece
  }
  return text
}

function asText(value: Json): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}

function refused(error: JsonError): ToolError {
  const issues = [{ path: error.path, message: error.message }]
  if (error.fault === 'too-large' || error.fault === 'too-deep') {
    const limit = error.fault === 'too-large' ? 'argsBytes' : 'argsDepth'
    const options = { stage: 'chain', effect: 'none', details: { limit, issues }, cause: error } as const
    return new ToolError('LIMIT_EXCEEDED', `The bound arguments are over ${limit}.`, options)
  }
  return new ToolError('REFERENCE_INVALID', 'A referenced value cannot be passed to a tool.', {
    details: { issues },
    cause: error,
  })
}
