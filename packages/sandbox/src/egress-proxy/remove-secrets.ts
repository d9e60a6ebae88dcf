import type { Standing } from './placeholder.ts'

/** Puts placeholders back into what a server sent: names and values of headers in turn. */
export function takeOutOfHeaders(headers: readonly string[], standing: readonly Standing[]): string[] {
  // Looking through one long text is much quicker than through many, and most hold nothing.
  const all = headers.join('\0')
  return takeOut(all, standing) === all ? [...headers] : headers.map((text) => takeOut(text, standing))
}

/** The same for the bytes of a body that is here as a whole. */
export function takeOutOfBytes(bytes: Uint8Array, standing: readonly Standing[]): Buffer {
  return Buffer.from(takeOut(Buffer.from(bytes).toString('latin1'), standing), 'latin1')
}

/** The same for a body that comes in pieces: the end of each, where a secret may be unfinished, waits for the next one. */
export async function* takeOutOfBody(
  pieces: AsyncIterable<Uint8Array>,
  standing: readonly Standing[],
): AsyncGenerator<Uint8Array, void, undefined> {
  const redactors = standing.map(({ redactor }) => redactor.pieces())
  for await (const piece of pieces) {
    const text = redactors.reduce((rest, redactor) => redactor.push(rest), Buffer.from(piece).toString('latin1'))
    if (text !== '') yield Buffer.from(text, 'latin1')
  }
  const last = redactors.reduce((before, redactor) => `${redactor.push(before)}${redactor.end()}`, '')
  if (last !== '') yield Buffer.from(last, 'latin1')
}

function takeOut(text: string, standing: readonly Standing[]): string {
  return standing.reduce((rest, { redactor }) => redactor.text(rest), text)
}
