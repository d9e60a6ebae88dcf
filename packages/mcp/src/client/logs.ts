import type { Json, LogLevel } from '@gantry/contract'
import type { BackendContext, BackendHost } from '@gantry/core/internal/backends/backend'
import { codePoint } from '@gantry/core/internal/ids/quote'

/** Far beyond the displayed length, so that truncation never splits a displayed secret. */
const longestLine = 100_000
const linesPerSecond = 50
const levels: { readonly [level: string]: LogLevel } = {
  debug: 'debug',
  info: 'info',
  notice: 'info',
  warning: 'warn',
}

/**
 * Routes a server's log messages. The protocol does not relate a log message to a call, so it goes to the only running
 * call, or otherwise to the executor's subscribers: never to an unrelated caller.
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

  /** Registers a running call until `end`. */
  begin(context: BackendContext): void {
    this.#calls.add(context)
  }

  end(context: BackendContext): void {
    this.#calls.delete(context)
  }
}

const unseen = /[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Zl}\p{Zp}]/gu

/** Foreign text for display: one line, truncated, with invisible characters spelled out. */
export function plainText(text: string, limit: number): string {
  const shown = text
    .slice(0, limit)
    .toWellFormed()
    .replace(unseen, (character) => ` ${codePoint(character)} `)
  return text.length > limit ? `${shown}… (${text.length} characters)` : shown
}

/** Forwards a limited number of lines per second; the others are counted, and the count is forwarded later. */
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

/** True at most this many times per second. */
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
