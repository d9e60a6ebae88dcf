import { type Json, type JsonObject, ToolError } from '@gantry/contract'
import { isComposite, isObject } from '@gantry/contract/internal/json'
import { quote } from '@gantry/core/internal/ids/quote'
import { copyJson, JsonError, type JsonLimits } from '@gantry/core/internal/json/plain'
import { escapeSegment, unescapeSegment } from '@gantry/json-schema/internal/pointer'

/** The reason why an operation, or a part of it, cannot be imported; thrown and caught inside `openapi/` only. */
export class Unusable extends Error {
  override readonly name = 'Unusable'
}

/** The value of `work`, or the reason of its Unusable. */
export function attempt<T>(work: () => T): { readonly value: T } | { readonly reason: string } {
  try {
    return { value: work() }
  } catch (error) {
    if (error instanceof Unusable) return { reason: error.message }
    throw error
  }
}

/** Most documents have less than 15 MB and half a million members; the largest published ones come near 128 MiB. */
const limits: JsonLimits = { bytes: 128 * 1_048_576, depth: 200, nodes: 8_000_000 }
/** The limit of chained references; longer chains count as circular. */
const mostHops = 32

/** A copied document of a supported version. */
export interface Source {
  readonly root: JsonObject
  readonly version: '3.0' | '3.1'
  /** `__proto__` keys that were left out. */
  readonly dropped: number
  /**
   * The limit of translated bytes in each direction, counted for each use, and half the limit of bytes read through
   * references. It is several times the size of the document, and bounds operations that share a large part.
   */
  readonly allowance: number
  /** Bytes read through references so far, and the size of each referenced part. */
  readonly reads: { bytes: number; readonly sizes: WeakMap<object, Size> }
}

/** A part of a document and the JSON Pointer to it. */
export interface Part<T = Json> {
  readonly value: T
  readonly path: string
}

/** Copies a document, so that getters cannot return other values later; throws INPUT_INVALID. */
export function readSource(document: unknown): Source {
  const dropped = { count: 0 }
  const root = copied(document, dropped)
  if (!isObject(root)) throw refused('An OpenAPI document must be an object.', '')
  if (root.swagger !== undefined) {
    throw refused('This is a Swagger 2.0 document; only OpenAPI 3.0 and 3.1 are read. Convert it first.', '/swagger')
  }
  const version = typeof root.openapi === 'string' ? /^3\.[01](?=$|[.-])/.exec(root.openapi)?.[0] : undefined
  if (version === undefined) {
    const found = root.openapi === undefined ? 'is missing' : `is ${quote(String(root.openapi))}`
    throw refused(`Only OpenAPI 3.0 and 3.1 are read; "openapi" ${found}.`, '/openapi')
  }
  return {
    root,
    version: version as Source['version'],
    dropped: dropped.count,
    allowance: 4_000_000 + 3 * measure(root).bytes,
    reads: { bytes: 0, sizes: new WeakMap() },
  }
}

function copied(document: unknown, dropped: { count: number }): Json {
  try {
    return copyJson(document, { limits, dropped })
  } catch (error) {
    if (!(error instanceof JsonError)) throw error
    throw refused(`The OpenAPI document cannot be read: ${error.path || 'it'} ${error.message}.`, error.path)
  }
}

/** The error of a document that is refused as a whole. */
export function refused(message: string, path: string): ToolError {
  return new ToolError('INPUT_INVALID', message, { stage: 'define', details: { issues: [{ path, message }] } })
}

/** Resolves one reference inside the document. */
export function lookUp({ root }: Source, reference: string): Part {
  const pointer = pointerOf(reference)
  let value: Json | undefined = root
  for (const segment of pointer.split('/').slice(1)) {
    const key = unescapeSegment(segment)
    if (!isComposite(value) || !Object.hasOwn(value, key)) {
      throw new Unusable(`it refers to ${quote(reference)}, which is not in the document`)
    }
    value = Reflect.get(value, key)
  }
  return { value: value ?? null, path: pointer }
}

function pointerOf(reference: string): string {
  if (reference !== '#' && !reference.startsWith('#/')) {
    throw new Unusable(`it refers to ${quote(reference)}; only references inside the document are followed`)
  }
  try {
    return decodeURIComponent(reference.slice(1))
  } catch {
    throw new Unusable(`it refers to ${quote(reference)}, which is not a JSON Pointer`)
  }
}

/** The object, or the end of its chain of `$ref`; a circular chain is refused. */
export function follow(source: Source, part: Part): Part<JsonObject> {
  let { value, path } = part
  for (let hop = 0; hop < mostHops; hop++) {
    if (!isObject(value)) throw new Unusable(`${path} is not an object`)
    if (typeof value.$ref !== 'string') {
      if (hop > 0) countRead(source, value)
      return { value, path }
    }
    ;({ value, path } = lookUp(source, value.$ref))
  }
  throw new Unusable(`the references from ${part.path} lead in a circle`)
}

/** The reason for operations beyond the limit. */
export const tooOften = 'the document refers to large parts of itself too often'

function countRead({ reads, allowance }: Source, value: JsonObject): void {
  const size = reads.sizes.get(value) ?? measure(value)
  reads.sizes.set(value, size)
  reads.bytes += size.bytes
  if (reads.bytes > 2 * allowance) throw new Unusable(tooOften)
}

/** A member of an object, with its path; undefined when there is none. */
export function member(part: Part, key: string): Part | undefined {
  const { value, path } = part
  if (!isObject(value) || !Object.hasOwn(value, key)) return undefined
  return { value: value[key] ?? null, path: `${path}/${escapeSegment(key)}` }
}

/** The members of an object or the elements of a list; empty for other values. */
export function parts(part: Part | undefined): readonly (Part & { readonly key: string })[] {
  if (typeof part?.value !== 'object' || part.value === null) return []
  const { value, path } = part
  return Object.entries(value).map(([key, item]) => ({ key, value: item, path: `${path}/${escapeSegment(key)}` }))
}

/** A text, unless it is empty. */
export function textOf(value: Json | undefined): string | undefined {
  return typeof value === 'string' && value.trim() !== '' ? value.trim() : undefined
}

/** The beginning of a text that is too long, with an ellipsis. */
export function clip(text: string, limit: number): string {
  return text.length <= limit ? text : `${text.slice(0, limit - 1).toWellFormed()}…`
}

/** The size of a JSON value: approximate characters of its text, members, levels. */
export interface Size {
  readonly bytes: number
  readonly nodes: number
  readonly depth: number
}

/** Walks a value once; parts whose size is `known` are not walked again. */
export function measure(value: unknown, known?: WeakMap<object, Size>): Size {
  let [bytes, nodes, deepest] = [0, 0, 0]
  const walk = (item: unknown, depth: number): void => {
    nodes += 1
    deepest = Math.max(deepest, depth)
    if (typeof item !== 'object' || item === null) {
      bytes += typeof item === 'string' ? Buffer.byteLength(item) + 3 : 8
      return
    }
    const part = known?.get(item)
    if (part !== undefined) {
      bytes += part.bytes
      nodes += part.nodes - 1
      deepest = Math.max(deepest, depth + part.depth)
      return
    }
    bytes += 2
    if (Array.isArray(item)) for (const element of item) walk(element, depth + 1)
    else {
      for (const [key, member] of Object.entries(item)) {
        bytes += Buffer.byteLength(key) + 4
        walk(member, depth + 1)
      }
    }
  }
  walk(value, 0)
  return { bytes, nodes, depth: deepest }
}
