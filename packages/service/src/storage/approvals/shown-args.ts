import { createHash } from 'node:crypto'
import type { ApprovalNote, ApprovalView, Json, JsonObject } from '@gantry/contract'

/** Bytes of JSON up to which arguments are shown whole without being asked for. */
const wholeBytes = 262_144
/** Characters of a text that is shown in part, as many of these as leave room for everything else. */
const partLengths = [8_192, 1_024, 256] as const
/** Of an argument that has too many members to show them all, as JSON. */
const partOfMembers = 1_024
const mostNotes = 100
const longestUrl = 8_192

type Shown = Pick<ApprovalView, 'args' | 'truncated' | 'notes'>

/**
 * Arguments for a person who decides on them. Where they are long and not all was asked for, the longest texts are cut
 * first, so that no padding hides a short one; then the arguments that have too many members. What is cut says how long
 * it is and its SHA-256.
 */
export function shownArgs(text: string, full: boolean): Shown {
  const args = JSON.parse(text) as JsonObject
  const notes = notesOf(args)
  const told = notes.length === 0 ? {} : { notes }
  if (full || Buffer.byteLength(text) <= wholeBytes) return { args, ...told }
  for (const length of partLengths) {
    const truncated: string[] = []
    const cut = cutTexts(args, '', length, truncated)
    if (jsonBytes(cut) + jsonBytes(truncated) <= wholeBytes) return { args: cut, truncated, ...told }
  }
  return { ...cutMembers(args), ...told }
}

function cutTexts(value: Json, path: string, length: number, truncated: string[]): Json {
  if (typeof value === 'string') {
    if (value.length <= length) return value
    truncated.push(path)
    return part(value, length)
  }
  if (Array.isArray(value)) return value.map((item, index) => cutTexts(item, `${path}/${index}`, length, truncated))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, member]) => [key, cutTexts(member, `${path}/${segment(key)}`, length, truncated)]),
  )
}

/** Each argument that is long by its members as the beginning of its JSON; those for which there is no room are left out. */
function cutMembers(args: JsonObject): Required<Pick<Shown, 'args' | 'truncated'>> {
  const shown: [string, Json][] = []
  const truncated: string[] = []
  let room = wholeBytes
  let isWhole = true
  for (const [key, member] of Object.entries(args)) {
    const text = typeof member === 'string' ? member : JSON.stringify(member)
    const isCut = text.length > partOfMembers
    const entry: [string, Json] = [key, isCut ? part(text, partOfMembers) : member]
    const bytes = jsonBytes(entry) + (isCut ? jsonBytes(key) : 0)
    if (bytes > room) {
      isWhole = false
      continue
    }
    room -= bytes
    shown.push(entry)
    if (isCut) truncated.push(`/${segment(key)}`)
  }
  return { args: Object.fromEntries(shown), truncated: isWhole ? truncated : ['', ...truncated] }
}

function part(text: string, length: number): string {
  const digest = createHash('sha256').update(text).digest('hex')
  return `${text.slice(0, length)}… [truncated: ${Buffer.byteLength(text)} bytes in all, sha256:${digest}]`
}

function jsonBytes(value: Json): number {
  return Buffer.byteLength(JSON.stringify(value))
}

/** Notes on every text of a value, keys included, as far as there is room for them. */
function notesOf(value: Json): ApprovalNote[] {
  const notes: ApprovalNote[] = []
  const look = (value: Json, path: string): void => {
    if (notes.length >= mostNotes) return
    if (typeof value === 'string') notes.push(...urlNotes(value, path), ...invisibleNotes(value, path))
    else if (Array.isArray(value)) for (const [index, item] of value.entries()) look(item, `${path}/${index}`)
    else if (typeof value === 'object' && value !== null) {
      for (const [key, member] of Object.entries(value)) {
        const at = `${path}/${segment(key)}`
        notes.push(...invisibleNotes(key, at))
        look(member, at)
      }
    }
  }
  look(value, '')
  return notes.slice(0, mostNotes)
}

/** A URL is what `URL` makes one of, which drops tabs, line breaks and leading blanks and reads backslashes as slashes. */
function urlNotes(text: string, path: string): ApprovalNote[] {
  if (text.length > longestUrl) return []
  const read = text.replace(/[\t\n\r]/g, '')
  const url = /^[\0-\x20]*(?:https?|wss?|ftp):|^[\0-\x20]*[a-z][a-z0-9+.-]{0,30}:\/\//i.test(read)
    ? URL.parse(text)
    : null
  if (url === null || url.host === '') return []
  const { username, password, host, href } = url
  const userinfo = password === '' ? username : `${username}:${password}`
  return [{ kind: 'url', path, host, url: href, ...(userinfo === '' ? {} : { userinfo }) }]
}

/** Controls but for line ends and tabs, and all that Unicode leaves without a shape: joiners, directions, odd spaces. */
const invisible = /(?![\n\t]|\r\n)[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{DI}\p{Zl}\p{Zp}\u2800]|(?! )\p{Zs}/gu
const mostKinds = 20

function invisibleNotes(text: string, path: string): ApprovalNote[] {
  const counts = new Map<string, number>()
  for (const [character] of text.matchAll(invisible)) counts.set(character, (counts.get(character) ?? 0) + 1)
  if (counts.size === 0) return []
  const characters = [...counts].slice(0, mostKinds).map(([character, count]) => `${codePoint(character)} ×${count}`)
  return [{ kind: 'invisible', path, characters }]
}

function codePoint(character: string): string {
  return `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}`
}

function segment(key: string): string {
  return key.replaceAll('~', '~0').replaceAll('/', '~1')
}
