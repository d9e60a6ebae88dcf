/** A Semantic Version 2.0, parsed. */
export interface Version {
  readonly major: number
  readonly minor: number
  readonly patch: number
  /** Empty for a stable version. */
  readonly prerelease: readonly (string | number)[]
  /** Build metadata, which never takes part in a comparison. */
  readonly build: string
}

const pattern =
  /^(0|[1-9]\d{0,14})\.(0|[1-9]\d{0,14})\.(0|[1-9]\d{0,14})(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?$/
const numeric = /^\d+$/
const none: readonly (string | number)[] = Object.freeze([])

/** Longest version text that is looked at. */
export const maxVersionLength = 128

/** Reads a whole version (`1.2.3`, `1.2.3-rc.1+build`), or gives undefined for anything else. */
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
export function parsePrerelease(text: string): readonly (string | number)[] | undefined {
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
