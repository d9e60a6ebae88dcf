import { createHash } from 'node:crypto'
import type { ApprovalNote, ApprovalView, Json } from '@gantry/contract'

/** Bytes of JSON up to which arguments are shown whole without being asked for. */
const wholeBytes = 262_144
/** Characters of a text that is shown in part. */
const longestText = 8_192
const mostNotes = 100
const longestUrl = 8_192

type Shown = Pick<ApprovalView, 'args' | 'truncated' | 'notes'>

/**
 * Arguments for a person who decides on them. A long text is cut only where not all was asked for, and says how long it
 * is and its SHA-256; arguments that are long by their number of members are then not shown at all.
 */
export function shownArgs(text: string, full: boolean): Shown {
  const args = JSON.parse(text) as Json
  const notes = notesOf(args)
  const told = notes.length === 0 ? {} : { notes }
  if (full || Buffer.byteLength(text) <= wholeBytes) return { args, ...told }
  const truncated: string[] = []
  const cut = cutTexts(args, '', truncated)
  if (Buffer.byteLength(JSON.stringify(cut)) > wholeBytes) return { truncated: [''], ...told }
  return { args: cut, truncated, ...told }
}

function cutTexts(value: Json, path: string, truncated: string[]): Json {
  if (typeof value === 'string') {
    if (value.length <= longestText) return value
    truncated.push(path)
    const digest = createHash('sha256').update(value).digest('hex')
    return `${value.slice(0, longestText)}… [truncated: ${Buffer.byteLength(value)} bytes in all, sha256:${digest}]`
  }
  if (Array.isArray(value)) return value.map((item, index) => cutTexts(item, `${path}/${index}`, truncated))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, member]) => [key, cutTexts(member, `${path}/${segment(key)}`, truncated)]),
  )
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
