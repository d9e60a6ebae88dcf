import { formats } from '../formats/formats.ts'
import { abridgeKey, addIssue, type State, spend, sure } from '../node.ts'
import { assertion, type Keyword, plural } from './keyword.ts'

/** Whether a string has at least so many code points; looks no further than it must. */
function hasCodePoints(text: string, wanted: number): boolean {
  if (text.length < wanted) return false
  if (text.length >= wanted * 2) return true
  return codePoints(text) >= wanted
}

function codePoints(text: string): number {
  let count = 0
  for (let index = 0; index < text.length; index++) {
    const unit = text.charCodeAt(index)
    if (unit >= 0xd800 && unit < 0xdc00 && index + 1 < text.length) {
      const next = text.charCodeAt(index + 1)
      if (next >= 0xdc00 && next < 0xe000) index++
    }
    count++
  }
  return count
}

export const minLength: Keyword = {
  shape: 'count',
  vocabulary: 'validation',
  rank: 1,
  build(value, site) {
    const limit = value as number
    return assertion(
      site,
      (instance, state) => {
        if (typeof instance !== 'string') return true
        if (instance.length > 256) spend(state, instance.length >> 8)
        return hasCodePoints(instance, limit)
      },
      (instance) => `must have at least ${plural(limit, 'character')}, but has ${codePoints(String(instance))}`,
    )
  },
}

export const maxLength: Keyword = {
  shape: 'count',
  vocabulary: 'validation',
  rank: 1,
  build(value, site) {
    const limit = value as number
    return assertion(
      site,
      (instance, state) => {
        if (typeof instance !== 'string' || instance.length <= limit) return true
        spend(state, instance.length >> 8)
        return !hasCodePoints(instance, limit + 1)
      },
      (instance) => `must have at most ${plural(limit, 'character')}, but has ${codePoints(String(instance))}`,
    )
  },
}

export const pattern: Keyword = {
  shape: 'pattern',
  vocabulary: 'validation',
  rank: 2,
  build(value, site) {
    const { path, keyword } = site
    const source = value as string
    const compiled = site.pattern(source)
    const matches = (instance: unknown, state: State): boolean | undefined =>
      typeof instance !== 'string' || compiled.matches(instance, state)
    return {
      ...assertion(site, (instance, state) => sure(matches(instance, state)), String),
      report(instance, state, at) {
        const match = matches(instance, state)
        if (match === true) return
        const words = match === false ? 'must match' : 'is too long to check against'
        addIssue(state, at, path, keyword, `${words} the pattern ${abridgeKey(source)}`)
      },
    }
  },
}

export const format: Keyword = {
  shape: 'string',
  vocabulary: 'format',
  rank: 2,
  build(value, site) {
    const name = value as string
    const matches = formats.get(name)
    if (!site.assertFormat || matches === undefined) return undefined
    return assertion(
      site,
      (instance, state) => {
        if (typeof instance !== 'string') return true
        spend(state, 1 + (instance.length >> 4))
        return matches(instance)
      },
      () => `must be in the format ${name}`,
    )
  },
}
