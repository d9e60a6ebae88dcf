import { Transform } from 'node:stream'
import { JsonError, parseJson } from '@gantry/core'
import { bodyDepth, bodyNodes } from '../http/limits.ts'
import { type RefusedJson, refusedJson } from './refused-json.ts'

/** How long one message over stdio may be. */
export const mostLineBytes = 16 * 1_048_576

const newline = 0x0a

/**
 * Lets through the lines that hold JSON as the endpoint of the service takes it. Every other one is answered by `refuse`
 * and goes no further, because the SDK would pass it over in silence. A line longer than `most` bytes destroys the stream.
 */
export function messageLines(refuse: (answer: RefusedJson) => void, most: number = mostLineBytes): Transform {
  let pieces: Buffer[] = []
  let length = 0
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      let from = 0
      for (let end = chunk.indexOf(newline); end !== -1; end = chunk.indexOf(newline, from)) {
        const line = Buffer.concat([...pieces, chunk.subarray(from, end + 1)])
        ;[pieces, length, from] = [[], 0, end + 1]
        const refused = line.length > most ? undefined : refusalOf(line.toString('utf8').trim(), most)
        if (refused === undefined) this.push(line)
        else refuse(refused)
      }
      pieces.push(chunk.subarray(from))
      length += chunk.length - from
      done(length > most ? new Error(`A message is longer than ${most} bytes.`) : null)
    },
  })
}

function refusalOf(line: string, most: number): RefusedJson | undefined {
  if (line === '') return undefined
  try {
    parseJson(line, { bytes: most, depth: bodyDepth, nodes: bodyNodes })
    return undefined
  } catch (error) {
    if (!(error instanceof JsonError)) throw error
    const where = `${error.path.slice(0, 200)} ${error.message}`.trim()
    return refusedJson(line, `The message cannot be taken: ${where}.`)
  }
}
