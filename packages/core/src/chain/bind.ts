import { type Json, type JsonObject, ToolError } from '@gantry/contract'
import { copyJson } from '../json/copy.ts'
import { isObject } from '../json/kinds.ts'
import { JsonError, utf8Length } from '../json/limits.ts'
import { type Allowance, type ChainLimits, createAllowance, sizeOf } from './limits.ts'
import { readReference, type Scope } from './scope.ts'
import type { Template } from './template.ts'

/**
 * A template with its references replaced, as a fresh value that shares nothing with earlier outputs.
 * A lone reference keeps its type; inside text it becomes text. What a reference brings in is never read as a template.
 */
export function bind(template: Template, scope: Scope, limits: ChainLimits): Json {
  try {
    const bound = evaluate(template, scope, createAllowance('argsBytes', limits))
    return copyJson(bound, { limits: { bytes: limits.argsBytes, depth: limits.argsDepth, nodes: limits.argsBytes } })
  } catch (error) {
    throw error instanceof JsonError ? refused(error) : error
  }
}

/** Binds what is known to be an object. */
export function bindArgs(args: Template, scope: Scope, limits: ChainLimits): JsonObject {
  const bound = bind(args, scope, limits)
  if (isObject(bound)) return bound
  throw new ToolError('REFERENCE_INVALID', 'The arguments are not an object.')
}

/**
 * A template's value as it stands in the scope, shared with it: for reading only.
 * A value that a lone reference names is there already; one that is built counts, with all that it refers to.
 */
export function view(template: Template, scope: Scope, allowance: Allowance): Json {
  const value = evaluate(template, scope, allowance)
  if (template.kind === 'list' || template.kind === 'object') allowance.spend(sizeOf(value, allowance.left))
  return value
}

/** Shares what references name, so that only text takes room. */
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

/** Measures as it grows, because a few references can make very long text. */
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
  return new ToolError('REFERENCE_INVALID', 'A referenced value may not be passed on.', {
    details: { issues },
    cause: error,
  })
}
