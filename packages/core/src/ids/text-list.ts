import type { Issue } from '@gantry/contract'

const goodTag = /^[a-z0-9_.-]+$/

/** The spelling under which a tag is kept and asked for, so that `Blue Sky` and `blue-sky` are one tag everywhere. */
export function normalTag(tag: string): string {
  return goodTag.test(tag) ? tag : tag.trim().toLowerCase().replace(/\s+/g, '-')
}

/** Whether a text is a tag in its one spelling. */
export function isTag(text: string): boolean {
  return goodTag.test(text)
}

/** Longer lists are refused, because somebody outside may have written them. */
const maxItems = 10_000

/** Reads one text of a list; reports and gives undefined when it is wrong. */
type Read<T> = (text: string, path: string, issues: Issue[]) => T | undefined

/**
 * What the texts of a list from outside mean. Reports everything that is not a text; an empty list too, because it
 * could be meant as nothing or as everything. `form` says what would be right.
 */
export function readTexts<T>(value: unknown, path: string, issues: Issue[], form: string, read: Read<T>): readonly T[] {
  const fault = listFault(value)
  if (fault !== undefined) issues.push({ path, message: `${fault}; ${form}` })
  if (fault !== undefined || !Array.isArray(value)) return []
  const found: T[] = []
  // Over entries, because a hole in the list is no text either, and `forEach` would pass over it.
  for (const [index, item] of value.entries()) {
    const at = `${path}/${index}`
    const meaning = typeof item === 'string' ? read(item, at, issues) : undefined
    if (typeof item !== 'string') issues.push({ path: at, message: `must be a string; ${form}` })
    if (meaning !== undefined) found.push(meaning)
  }
  return found
}

/** The texts themselves, none of them empty. */
export function textList(value: unknown, path: string, issues: Issue[]): readonly string[] {
  return readTexts(value, path, issues, 'name at least one, or leave it out', someText)
}

/** The text, unless it is empty. */
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
