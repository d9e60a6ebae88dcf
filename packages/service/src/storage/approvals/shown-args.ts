import { createHash } from 'node:crypto'
import type { ApprovalNote, ApprovalView, Json, JsonObject } from '@gantry/contract'

/** Arguments up to this size as JSON are not truncated. */
const wholeBytes = 262_144
/** Lengths to truncate long texts to, tried in this order until the arguments fit. */
const partLengths = [8_192, 1_024, 256] as const
/** Length of the JSON prefix of an argument with too many members. */
const partOfMembers = 1_024
/** Limit of the notes of one kind. */
const mostNotes = 100
const longestUrl = 8_192

type Shown = Pick<ApprovalView, 'args' | 'truncated' | 'notes' | 'notesOmitted'>

/**
 * Arguments as approvers see them. Unless `full`, the longest texts are truncated first, so that padding cannot hide a
 * short one, and then arguments with too many members. A truncated part names its size and SHA-256.
 */
export function shownArgs(text: string, full: boolean): Shown {
  const args: JsonObject = JSON.parse(text)
  const noted = notesOf(args)
  if (full || Buffer.byteLength(text) <= wholeBytes) return { args, ...noted }
  for (const length of partLengths) {
    const truncated: string[] = []
    const cut = cutTexts(args, '', length, truncated)
    if (jsonBytes(cut) + jsonBytes(truncated) <= wholeBytes) return { args: cut, truncated, ...noted }
  }
  return { ...cutMembers(args), ...noted }
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

/** Replaces arguments with too many members by a prefix of their JSON, and omits those beyond the limit. */
function cutMembers(args: JsonObject): Required<Pick<Shown, 'args' | 'truncated'>> {
  const shown: [string, Json][] = []
  const truncated: string[] = []
  let bytesLeft = wholeBytes
  let isWhole = true
  for (const [key, member] of Object.entries(args)) {
    const text = typeof member === 'string' ? member : JSON.stringify(member)
    const isCut = text.length > partOfMembers
    const entry: [string, Json] = [key, isCut ? part(text, partOfMembers) : member]
    const bytes = jsonBytes(entry) + (isCut ? jsonBytes(key) : 0)
    if (bytes > bytesLeft) {
      isWhole = false
      continue
    }
    bytesLeft -= bytes
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

/**
 * Notes on the texts of a value, keys included, up to a limit of each kind: URLs that lead elsewhere than they read come
 * first, one for each host before a second for any, so that no number of other notes can displace one.
 */
function notesOf(value: Json): Pick<Shown, 'notes' | 'notesOmitted'> {
  const hosts = new Set<string>()
  const kinds = {
    deceptive: [] as ApprovalNote[],
    repeated: [] as ApprovalNote[],
    invisible: [] as ApprovalNote[],
    plain: [] as ApprovalNote[],
  }
  let omitted = 0
  const add = (kind: keyof typeof kinds, note: () => ApprovalNote): void => {
    if (kinds[kind].length < mostNotes) kinds[kind].push(note())
    else omitted += 1
  }
  const addUrl = (text: string, path: string): void => {
    if (plainUrl.test(text) && text.length <= longestUrl) {
      add('plain', () => ({ kind: 'url', path, host: new URL(text).host, url: new URL(text).href }))
      return
    }
    const note = urlNote(text, path)
    if (note === undefined) return
    if (isAsWritten(text, note)) {
      add('plain', () => note)
      return
    }
    add(hosts.has(note.host) ? 'repeated' : 'deceptive', () => note)
    if (hosts.size < mostNotes) hosts.add(note.host)
  }
  const look = (value: Json, path: string): void => {
    if (typeof value === 'string') {
      addUrl(value, path)
      for (const note of invisibleNotes(value, path)) add('invisible', () => note)
    } else if (Array.isArray(value)) {
      for (const [index, item] of value.entries()) look(item, `${path}/${index}`)
    } else if (typeof value === 'object' && value !== null) {
      for (const [key, member] of Object.entries(value)) {
        const at = `${path}/${segment(key)}`
        for (const note of invisibleNotes(key, at)) add('invisible', () => note)
        look(member, at)
      }
    }
  }
  look(value, '')
  const notes = [...kinds.deceptive, ...kinds.repeated, ...kinds.invisible, ...kinds.plain]
  if (notes.length === 0) return {}
  return { notes, ...(omitted === 0 ? {} : { notesOmitted: omitted }) }
}

type UrlNote = Extract<ApprovalNote, { kind: 'url' }>

/** A URL whose host is plain to see, so that it need not be parsed: no userinfo, no numbers as host, no punycode. */
const plainUrl = /^https?:\/\/(?:[a-z0-9]+(?:-[a-z0-9]+)*\.)*[a-z]+(?::[1-9]\d{0,3})?(?:[/?#][\x21-\x5b\x5d-\x7e]*)?$/

/** Detects URLs by the parser that dials them, which drops tabs and line breaks and reads backslashes as slashes. */
function urlNote(text: string, path: string): UrlNote | undefined {
  const read = text.replace(/[\t\n\r]/g, '')
  const url = /^[\0-\x20]*(?:https?|wss?|ftp):|^[\0-\x20]*[a-z][a-z0-9+.-]{0,30}:\/\//i.test(read)
    ? URL.parse(text)
    : null
  if (url === null || url.host === '') return undefined
  const { username, password, host, href } = url
  const userinfo = password === '' ? username : `${username}:${password}`
  return { kind: 'url', path, host, url: clip(href), ...(userinfo === '' ? {} : { userinfo: clip(userinfo) }) }
}

/** Whether a reader of the URL sees the host that is dialled. */
function isAsWritten(text: string, { url, host, userinfo }: UrlNote): boolean {
  const start = `${url.slice(0, url.indexOf(':'))}://${host}`
  if (userinfo !== undefined || !text.toLowerCase().startsWith(start)) return false
  return /^(?::\d*)?(?:[/?#]|$)/.test(text.slice(start.length, start.length + 8))
}

function clip(text: string): string {
  return text.length <= longestUrl ? text : `${text.slice(0, longestUrl)}…`
}

/** Invisible characters: controls other than line ends and tabs, joiners, bidi marks and unusual spaces. */
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
