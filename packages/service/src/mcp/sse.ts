/**
 * The data of the events in a stream, as they come. An event longer than `most` characters ends it with an error:
 * whoever sends such a one is not what we think.
 */
export async function* sseData(body: ReadableStream<Uint8Array>, most: number): AsyncGenerator<string, void> {
  const decoder = new TextDecoder()
  let rest = ''
  for await (const piece of body) {
    rest += decoder.decode(piece, { stream: true })
    const events = rest.split(/\r?\n\r?\n/)
    rest = events.pop() ?? ''
    if (rest.length > most) throw new Error('An event is too long.')
    for (const event of events) {
      const lines = event.split(/\r?\n/).filter((line) => line.startsWith('data:'))
      const data = lines.map((line) => line.slice(5).replace(/^ /, '')).join('\n')
      if (data !== '') yield data
    }
  }
}
