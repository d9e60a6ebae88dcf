/**
 * The data of the events in a stream, as they come. An event longer than `most` characters ends it with an error:
 * whoever sends such a one is not what we think.
 */
export async function* sseData(body: ReadableStream<Uint8Array>, most: number): AsyncGenerator<string, void> {
  const decoder = new TextDecoder()
  /** The line that has not ended, in pieces: joined at its end only, because an event may come byte by byte. */
  let open: string[] = []
  let data: string[] = []
  let size = 0
  for await (const piece of body) {
    const [first = '', ...lines] = decoder.decode(piece, { stream: true }).split('\n')
    open.push(first)
    size += first.length
    for (const next of lines) {
      const line = open.join('').replace(/\r$/, '')
      open = [next]
      if (line.startsWith('data:')) data.push(line.slice(5).replace(/^ /, ''))
      if (line !== '') {
        size += next.length
        continue
      }
      const event = data.join('\n')
      data = []
      size = next.length
      if (event !== '') yield event
    }
    if (size > most) throw new Error('An event is too long.')
  }
}
