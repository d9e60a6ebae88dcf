/** Cuts bytes into lines; holds no more than one line of at most `limit` bytes. */
export interface LineReader {
  /** False when a line became longer than the limit; the reader is then of no more use. */
  push(chunk: Buffer): boolean
}

export function lineReader(limit: number, onLine: (line: string) => void): LineReader {
  let held: Buffer[] = []
  let size = 0
  const take = (piece: Buffer): boolean => {
    held.push(piece)
    size += piece.length
    return size <= limit
  }
  const rest = (piece: Buffer): string => {
    take(piece)
    const line = Buffer.concat(held, size).toString('utf8')
    held = []
    size = 0
    return line
  }
  return {
    push(chunk) {
      let start = 0
      for (let end = chunk.indexOf(10); end !== -1; end = chunk.indexOf(10, start)) {
        if (size + end - start > limit) return false
        const line = held.length === 0 ? chunk.toString('utf8', start, end) : rest(chunk.subarray(start, end))
        start = end + 1
        onLine(line)
      }
      return start === chunk.length || take(chunk.subarray(start))
    },
  }
}
