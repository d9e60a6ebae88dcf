import { createRedactor } from '@gantry/core/internal/json/redact'

/** As much of a refusal is read as an error of the protocol may need. */
const mostBytes = 65_536
const shortestHidden = 8

/**
 * A response of 400 or more, small enough to be shown and without secrets and what else the request was sent with: some
 * servers repeat the headers that they did not like, and the words of a refusal reach subscribers and logs.
 */
export async function refusalOf(
  response: Response,
  secrets: readonly string[],
  sent: readonly string[],
): Promise<Response> {
  const { status, statusText, headers, url } = response
  const bare = sent.map((value) => value.replace(/^\S+ /, ''))
  const hidden = [...secrets, ...[...sent, ...bare].filter((value) => value.length >= shortestHidden)]
  const redactor = createRedactor({ values: hidden, keys: false })
  const pieces = redactor.pieces()
  const { text, whole } = await beginning(response)
  // The end of what is not the whole text may be half a secret, and is not shown.
  const shown = pieces.push(text) + (whole ? pieces.end() : '')
  const result = new Response(shown, { status, statusText, headers })
  Object.defineProperty(result, 'url', { value: url })
  return result
}

/** What can be read of it: a refusal is one, whatever becomes of its words. */
async function beginning({ body }: Response): Promise<{ readonly text: string; readonly whole: boolean }> {
  const pieces: Uint8Array[] = []
  let size = 0
  let whole = false
  try {
    for await (const piece of body ?? []) {
      pieces.push(piece)
      size += piece.byteLength
      // Leaving the loop lets go of the rest.
      if (size >= mostBytes) break
    }
    whole = size < mostBytes
  } catch {
    // The status says enough.
  }
  const text = Buffer.concat(pieces, Math.min(size, mostBytes)).toString('utf8')
  return { text, whole }
}
