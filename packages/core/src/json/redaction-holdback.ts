import { joinEntities, joinLines, longestEntity } from './entities.ts'
import type { SecretForms } from './secret-forms.ts'

/**
 * How much of the end of a text that goes on must wait, because a secret may have begun there. It follows from the length
 * of the secrets and the layout of the text alone: were it to follow from what the end says, whoever writes the text and
 * sees where it stops would learn whether he guessed how a secret begins.
 */
export interface Holdback {
  /** The place before which every secret that began has come whole. */
  settled(text: string): number
  /** The most characters that may wait; 0 when there is no secret. */
  readonly reach: number
}

/** What a line ends with when a word of base64 or hex, also as entities, may go on behind it. */
const goesOn = /[A-Za-z0-9+/_%=;-]/

export function holdbackOf({ plain, encoded, rests }: SecretForms): Holdback {
  if (plain.length === 0) return { settled: (text) => text.length, reach: 0 }
  const asIs = plain.at(-1)?.length ?? 0
  // Behind base64 come the characters that hold its last bits, each in three at most, and its padding.
  const inBytes = encoded.reduce((most, form) => Math.max(most, form.length + 3 * (rests.get(form) ?? 0) + 7), 0)
  // Lines of 64 characters and more, with what breaks them, make an encoded form longer by less than half.
  const inLines = Math.ceil(inBytes * 1.5) + 16
  const reach = (Math.max(asIs, inLines) + 1) * longestEntity
  const byLines = !plain.some((form) => form.includes('\n'))

  const begins = (text: string): number => {
    const tail = text.slice(-inLines)
    const joined = joinLines(tail) ?? { text: tail, place: (index: number) => index }
    const wrapped = text.length - tail.length + joined.place(Math.max(0, joined.text.length - inBytes))
    const farthest = Math.max(0, Math.min(text.length - asIs, wrapped))
    return byLines ? Math.max(farthest, lineEnd(text, farthest)) : farthest
  }
  return {
    reach,
    settled(text) {
      const tail = text.slice(-reach)
      const shown = joinEntities(tail, true)
      const written = begins(tail)
      const place = shown === undefined ? written : Math.min(written, shown.place(begins(shown.text)))
      return text.length - tail.length + place
    },
  }
}

/** Behind the last line, of those that end after a place, that nothing encoded goes on from; it never does over a blank one. */
function lineEnd(text: string, from: number): number {
  for (let at = text.lastIndexOf('\n'); at >= from; at = text.lastIndexOf('\n', at - 1)) {
    const last = text.charAt(text.charAt(at - 1) === '\r' ? at - 2 : at - 1)
    if (!goesOn.test(last)) return at + 1
  }
  return 0
}
