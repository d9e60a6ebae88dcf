import { codePoint } from '@gantry/core/internal/ids/quote'

const unseen = /[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Zl}\p{Zp}]/gu

/** Text from outside for people to read: in one line, clipped, with everything invisible named instead of shown. */
export function plainText(text: string, limit: number): string {
  const shown = text
    .slice(0, limit)
    .toWellFormed()
    .replace(unseen, (character) => ` ${codePoint(character)} `)
  return text.length > limit ? `${shown}… (${text.length} characters)` : shown
}

/** Passes lines on, so many in a second at most; the rest is counted and the count passed on later. */
export function limitedLines(tell: (line: string) => void, most: number, now = Date.now): (line: string) => void {
  const budget = perSecond(most, now)
  let left = 0
  return (line) => {
    if (!budget()) {
      left += 1
      return
    }
    if (left > 0) tell(`${left} more lines were left out.`)
    left = 0
    tell(line)
  }
}

/** True so many times in a second at most. */
export function perSecond(most: number, now = Date.now): () => boolean {
  let second = 0
  let used = 0
  return () => {
    const current = Math.floor(now() / 1_000)
    if (current !== second) used = 0
    second = current
    used += 1
    return used <= most
  }
}
