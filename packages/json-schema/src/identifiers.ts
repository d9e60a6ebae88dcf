import type { Spot } from './spot.ts'
import { resolveUri } from './uri.ts'

const anchorName = /^[A-Za-z_][-A-Za-z0-9._]*$/

/** Notes a reference; it is resolved when every name is known. */
export function verifyReference(value: unknown, spot: Spot): void {
  if (typeof value !== 'string') {
    spot.refuse('must be a URI reference in a string')
    return
  }
  const keyword = spot.keyword === '$dynamicRef' ? '$dynamicRef' : '$ref'
  if (keyword === '$dynamicRef') spot.registry.dynamic = true
  spot.registry.references.push({ place: spot.place, keyword, value })
}

export function verifyAnchor(value: unknown, spot: Spot): void {
  if (typeof value === 'string' && anchorName.test(value)) addAnchor(value, spot)
  else spot.refuse('must be a name: a letter or _, then letters, digits, -, _ and .')
}

function addAnchor(name: string, spot: Spot): void {
  const { place } = spot
  const { resource } = place
  const other = resource.anchors?.get(name)
  if (other !== undefined && other.schema !== place.schema) spot.refuse(`is the anchor of another schema too: ${name}`)
  resource.anchors ??= new Map()
  resource.anchors.set(name, place)
  if (spot.keyword !== '$dynamicAnchor') return
  resource.dynamicAnchors ??= new Map()
  resource.dynamicAnchors.set(name, place)
}

/** The base URI was taken when the place was made; this refuses a bad `$id` and reads draft-07's anchors. */
export function verifyId(value: unknown, spot: Spot): void {
  const { dialect, uri } = spot.place.resource
  if (typeof value !== 'string' || resolveUri(value, uri) === undefined) {
    spot.refuse('must be a URI reference in a string')
    return
  }
  const fragment = value.slice(value.indexOf('#') + 1)
  if (!value.includes('#') || fragment === '') return
  if (dialect.legacy) addAnchor(fragment, spot)
  else spot.refuse('must have no fragment; a name belongs in $anchor')
}
