import type { Issue } from '@gantry/contract'

const goodTag = /^[a-z0-9_.-]+$/

/** The normalized spelling of a tag, so that `Blue Sky` and `blue-sky` are one tag everywhere. */
export function normalTag(tag: string): string {
  return goodTag.test(tag) ? tag : tag.trim().toLowerCase().replace(/\s+/g, '-')
}

/** Whether a text is a normalized tag. */
export function isTag(text: string): boolean {
  return goodTag.test(text)
}

/** Longer lists are refused, because they may be untrusted. */
const maxItems = 10_000

/** Reads one string of a list; adds an issue and returns undefined when it is invalid. */
type Read<T> = (text: string, path: string, issues: Issue[]) => T | undefined

/**
 * Reads an untrusted list of strings. Reports every element that is not a string, and an empty list, because it could
 * mean nothing or everything. `form` tells the author what to write.
 */
export function readTexts<T>(value: unknown, path: string, issues: Issue[], form: string, read: Read<T>): readonly T[] {
  const fault = listFault(value)
  if (fault !== undefined) issues.push({ path, message: `${fault}; ${form}` })
  if (fault !== undefined || !Array.isArray(value)) return []
  const found: T[] = []
  // `entries` visits holes, which `forEach` would skip.
  for (const [index, item] of value.entries()) {
    const at = `${path}/${index}`
    const meaning = typeof item === 'string' ? read(item, at, issues) : undefined
    if (typeof item !== 'string') issues.push({ path: at, message: `must be a string; ${form}` })
    if (meaning !== undefined) found.push(meaning)
  }
  return found
}

/** A list of strings, none of them blank. */
export function textList(value: unknown, path: string, issues: Issue[]): readonly string[] {
  return readTexts(value, path, issues, 'name at least one, or leave it out', someText)
}

/** The text, unless it is blank. */
export function someText(text: string, path: string, issues: Issue[]): string | undefined {
  if (text.trim() !== '') return text
  issues.push({ path, message: 'must not be empty' })
  return undefined
}

function listFault(value: unknown): string | undefined {
  if (!Array.isArray(value)) return 'must be a list of strings'
  if (value.length === 0) return 'must not be an empty list'
  return value.length > maxItems ? `must not have more than ${maxItems} elements` : undefined
}
