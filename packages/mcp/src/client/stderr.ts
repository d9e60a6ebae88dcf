import { StringDecoder } from 'node:string_decoder'
import { createRedactor } from '@gantry/core/internal/json/redact'
import { limitedLines, plainText } from './log-lines.ts'

const longestLine = 1_000
const linesPerSecond = 50
const tailLines = 10

/** Reads what a program says on its error output: told line by line within limits, and the end of it kept. */
export interface ErrorOutput {
  push(chunk: Buffer): void
  /** The last lines, for the message about the program's end. */
  tail(): string
}

/** `hidden` are values that must not be told, whatever the program prints. */
export function errorOutput(hidden: readonly string[], tell: (line: string) => void): ErrorOutput {
  const decoder = new StringDecoder('utf8')
  const pieces = createRedactor({ values: hidden, keys: false }).pieces()
  const limited = limitedLines(tell, linesPerSecond)
  const last: string[] = []
  let open = ''
  const line = (text: string): void => {
    const shown = plainText(text.trimEnd(), longestLine)
    if (shown === '') return
    last.push(shown)
    if (last.length > tailLines) last.shift()
    limited(shown)
  }
  return {
    push(chunk) {
      const parts = `${open}${pieces.push(decoder.write(chunk))}`.split('\n')
      // Of a line without end only the beginning is of interest.
      open = (parts.pop() ?? '').slice(0, longestLine + 1)
      for (const part of parts) line(part)
    },
    tail() {
      const rest = `${open}${pieces.end()}`
      open = ''
      line(rest)
      return last.join(' | ')
    },
  }
}
