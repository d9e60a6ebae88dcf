import type { Json, LogLevel } from '@gantry/contract'
import type { BackendContext, BackendHost } from '@gantry/core/internal/backends/backend'
import { codePoint } from '@gantry/core/internal/ids/quote'

/** Far behind what is shown, so that this cut halves no secret that could be seen. */
const longestLine = 100_000
const linesPerSecond = 50
const levels: { readonly [level: string]: LogLevel } = {
  debug: 'debug',
  info: 'info',
  notice: 'info',
  warning: 'warn',
}

/**
 * Where a server's words go. The protocol does not say which call a log message belongs to, so it goes to the call
 * while there is just one, and to the executor's subscribers otherwise: never to a caller whom it may not concern.
 */
export class Logs {
  readonly #calls = new Set<BackendContext>()
  readonly #tell: (line: string) => void

  constructor(server: string, host: BackendHost) {
    this.#tell = limitedLines((line) => host.report({ kind: 'log', message: `${server}: ${line}` }), linesPerSecond)
  }

  /** A line for the executor's subscribers. */
  line(text: string): void {
    this.#tell(plainText(text, longestLine))
  }

  message(level: string, data: unknown): void {
    const [only] = this.#calls.size === 1 ? this.#calls : []
    const text = typeof data === 'string' ? data : undefined
    if (only === undefined) this.line(`${level}: ${text ?? JSON.stringify(data)}`)
    else if (text !== undefined) only.log(levels[level] ?? 'error', text)
    else only.log(levels[level] ?? 'error', 'The server logged this.', data as Json)
  }

  /** The server is running this call until `end`. */
  begin(context: BackendContext): void {
    this.#calls.add(context)
  }

  end(context: BackendContext): void {
    this.#calls.delete(context)
  }
}

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
