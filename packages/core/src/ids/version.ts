/** A Semantic Version 2.0, parsed. */
export interface Version {
  readonly major: number
  readonly minor: number
  readonly patch: number
  /** Empty for a stable version. */
  readonly prerelease: readonly (string | number)[]
  /** Build metadata, which comparisons ignore. */
  readonly build: string
}

const pattern =
  /^(0|[1-9]\d{0,14})\.(0|[1-9]\d{0,14})\.(0|[1-9]\d{0,14})(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?$/
const numeric = /^\d+$/
const none: readonly (string | number)[] = Object.freeze([])

/** Longer version texts are refused. */
const maxVersionLength = 128

/** Parses a complete version (`1.2.3`, `1.2.3-rc.1+build`); undefined for anything else. */
export function parseVersion(text: string): Version | undefined {
  if (text.length > maxVersionLength) return undefined
  const match = pattern.exec(text)
  if (match === null) return undefined
  const prerelease = match[4] === undefined ? none : parsePrerelease(match[4])
  if (prerelease === undefined) return undefined
  const [, major, minor, patch, , build = ''] = match
  return { major: Number(major), minor: Number(minor), patch: Number(patch), prerelease, build }
}

/** Splits `rc.1` into its identifiers; a number with leading zeros or too large to compare is refused. */
function parsePrerelease(text: string): readonly (string | number)[] | undefined {
  const parts: (string | number)[] = []
  for (const part of text.split('.')) {
    if (!numeric.test(part)) parts.push(part)
    else if (part.length > 15 || (part.length > 1 && part.startsWith('0'))) return undefined
    else parts.push(Number(part))
  }
  return parts
}

/** Precedence by semver 2.0: negative when `a` is older. */
export function compareVersions(a: Version, b: Version): number {
  return a.major - b.major || a.minor - b.minor || a.patch - b.patch || comparePrereleases(a.prerelease, b.prerelease)
}

function comparePrereleases(a: readonly (string | number)[], b: readonly (string | number)[]): number {
  if (a.length === 0 || b.length === 0) return b.length - a.length
  const shared = Math.min(a.length, b.length)
  for (let index = 0; index < shared; index += 1) {
    const order = compareIdentifiers(a[index] ?? 0, b[index] ?? 0)
    if (order !== 0) return order
  }
  return a.length - b.length
}

/** Numbers come before words; words compare by their characters. */
function compareIdentifiers(a: string | number, b: string | number): number {
  if (typeof a === 'number') return typeof b === 'number' ? a - b : -1
  if (typeof b === 'number') return 1
  return a < b ? -1 : a > b ? 1 : 0
}

type Operator = '>=' | '>' | '<=' | '<' | '='

interface Comparator {
  readonly operator: Operator
  readonly version: Version
}

/**
 * The versions a caller accepts: every comparator must match.
 * A pre-release matches only when a comparator names a pre-release of the same major.minor.patch.
 */
export interface Range {
  readonly comparators: readonly Comparator[]
  /** Set when the text is one complete version, which needs no search. */
  readonly exact?: Version
}

interface Partial {
  readonly major: number
  /** Absent for a wildcard, and after one. */
  readonly minor?: number
  readonly patch?: number
  readonly prerelease: readonly (string | number)[]
}

const maxComparators = 8
const part =
  /^(\^|~|>=|<=|>|<|=)?(?:[xX*]|(0|[1-9]\d{0,14})(?:\.(?:[xX*]|(0|[1-9]\d{0,14})(?:\.(?:[xX*]|(0|[1-9]\d{0,14})(?:-([0-9A-Za-z.-]+))?))?))?)$/

/** Parses `1.2.3`, `^1.2`, `~1`, `1.x`, `>=1 <2` or `*`; undefined for anything else. */
export function parseRange(text: string): Range | undefined {
  if (text.length === 0 || text.length > maxVersionLength) return undefined
  const exact = parseVersion(text)
  if (exact !== undefined) return { exact, comparators: [{ operator: '=', version: exact }] }
  const words = text.split(' ')
  if (words.length > maxComparators) return undefined
  const comparators: Comparator[] = []
  for (const word of words) {
    const found = parseComparators(word)
    if (found === undefined) return undefined
    comparators.push(...found)
  }
  return { comparators }
}

/** Whether a version is in the range. */
export function satisfies(version: Version, range: Range): boolean {
  for (const { operator, version: bound } of range.comparators) {
    if (!holds(operator, compareVersions(version, bound))) return false
  }
  return version.prerelease.length === 0 || range.comparators.some(({ version: bound }) => names(bound, version))
}

function names(bound: Version, version: Version): boolean {
  return (
    bound.prerelease.length > 0 &&
    bound.major === version.major &&
    bound.minor === version.minor &&
    bound.patch === version.patch
  )
}

function holds(operator: Operator, order: number): boolean {
  switch (operator) {
    case '>=':
      return order >= 0
    case '>':
      return order > 0
    case '<=':
      return order <= 0
    case '<':
      return order < 0
    case '=':
      return order === 0
  }
}

function parseComparators(word: string): Comparator[] | undefined {
  const match = part.exec(word)
  if (match === null) return undefined
  const [, operator = '', major, minor, patch, tail] = match
  const prerelease = tail === undefined ? [] : parsePrerelease(tail)
  if (prerelease === undefined || prerelease.includes('')) return undefined
  if (major === undefined) return operator === '<' || operator === '>' ? nothing() : []
  const partial: Partial = {
    major: Number(major),
    ...(minor === undefined ? {} : { minor: Number(minor) }),
    ...(patch === undefined ? {} : { patch: Number(patch) }),
    prerelease,
  }
  return expand(operator, partial)
}

/** Turns an operator on a partial version into bounds on complete versions; `1` covers every `1.y.z`. */
function expand(operator: string, partial: Partial): Comparator[] {
  const low = whole(partial.major, partial.minor ?? 0, partial.patch ?? 0, partial.prerelease)
  const covered = partial.patch === undefined
  switch (operator) {
    case '^':
      return between(low, caretEnd(partial))
    case '~':
      return between(low, partial.minor === undefined ? nextMajor(partial) : nextMinor(partial))
    case '>=':
      return [{ operator: '>=', version: low }]
    case '<':
      return [{ operator: '<', version: low }]
    case '>':
      return covered ? [{ operator: '>=', version: end(partial) }] : [{ operator: '>', version: low }]
    case '<=':
      return covered ? [{ operator: '<', version: end(partial) }] : [{ operator: '<=', version: low }]
    default:
      return covered ? between(low, end(partial)) : [{ operator: '=', version: low }]
  }
}

/** The first version after those that a partial version covers. */
function end(partial: Partial): Version {
  return partial.minor === undefined ? nextMajor(partial) : nextMinor(partial)
}

/** A caret keeps the leftmost number that is not zero. */
function caretEnd(partial: Partial): Version {
  if (partial.major > 0 || partial.minor === undefined) return nextMajor(partial)
  if (partial.minor > 0 || partial.patch === undefined) return nextMinor(partial)
  return whole(0, 0, partial.patch + 1)
}

function nextMajor({ major }: Partial): Version {
  return whole(major + 1, 0, 0)
}

function nextMinor({ major, minor = 0 }: Partial): Version {
  return whole(major, minor + 1, 0)
}

function between(from: Version, to: Version): Comparator[] {
  return [
    { operator: '>=', version: from },
    { operator: '<', version: to },
  ]
}

/** `<*` and `>*` exclude everything. */
function nothing(): Comparator[] {
  return [{ operator: '<', version: whole(0, 0, 0) }]
}

function whole(major: number, minor: number, patch: number, prerelease: readonly (string | number)[] = []): Version {
  return { major, minor, patch, prerelease, build: '' }
}
