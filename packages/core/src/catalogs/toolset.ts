import type { Issue } from '@gantry/contract'
import { normalTag } from '../ids/tag.ts'
import { readTexts, textList } from '../ids/text-list.ts'
import { namespaceFault } from '../ids/tool-id.ts'
import { toolMatcher } from '../ids/tool-pattern.ts'
import { unknownKeys } from '../search/index.ts'
import type { CatalogEntry } from './catalog.ts'
import { inputFault } from './input-fault.ts'
import { isRecord } from './tool-fields.ts'

/** A named part of the catalog: each part that is given narrows it, and `deny` wins over all of them. */
export interface Toolset {
  readonly namespaces?: readonly string[] | undefined
  /** An entry needs one of them. */
  readonly tags?: readonly string[] | undefined
  /** Patterns as in a policy's rules: `*`, `ns:*`, `ns:prefix*`, `ns:name` or `ns:name:1.0.0`. */
  readonly allow?: readonly string[] | undefined
  readonly deny?: readonly string[] | undefined
}

type EntryTest = (entry: CatalogEntry) => boolean

/** How each part is read; each gives the test that an entry must pass. */
const parts: {
  readonly [Part in keyof Required<Toolset>]: (value: unknown, path: string, issues: Issue[]) => EntryTest
} = {
  namespaces(value, path, issues) {
    const form = 'name at least one namespace, or leave it out'
    const namespaces = new Set(readTexts(value, path, issues, form, readNamespace))
    return ({ tool }) => namespaces.has(tool.namespace.toLowerCase())
  },
  tags(value, path, issues) {
    const tags = new Set(textList(value, path, issues).map(normalTag))
    return ({ tool }) => tool.tags?.some((tag) => tags.has(tag)) ?? false
  },
  allow(value, path, issues) {
    const matches = toolMatcher(value, path, issues)
    return ({ tool }) => matches(tool)
  },
  deny(value, path, issues) {
    const matches = toolMatcher(value, path, issues)
    return ({ tool }) => !matches(tool)
  },
}

/**
 * Turns a toolset into a test that costs a few set look-ups an entry.
 * One that is not understood whole is INPUT_INVALID, because it would show more than its author meant.
 */
export function toolsetFilter(toolset: Toolset): EntryTest {
  const path = '/toolset'
  if (!isRecord(toolset))
    throw inputFault('toolset', [{ path, message: 'must be an object such as { allow: ["ns:*"] }' }])
  const issues = [...unknownKeys(toolset, Object.keys(parts), path, 'is not part of a toolset')]
  const said: { readonly [part: string]: unknown } = toolset
  const tests = Object.entries(parts).flatMap(([part, read]) =>
    said[part] === undefined ? [] : [read(said[part], `${path}/${part}`, issues)],
  )
  if (issues.length > 0) throw inputFault('toolset', issues)
  return (entry) => tests.every((passes) => passes(entry))
}

/** Namespaces that differ only in case cannot stand beside each other, so case does not matter here either. */
function readNamespace(text: string, path: string, issues: Issue[]): string | undefined {
  const fault = namespaceFault(text)
  if (fault === undefined) return text.toLowerCase()
  issues.push({ path, message: `is no namespace: it ${fault}` })
  return undefined
}
